"""What a family with audio input declares, and readers of its files."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlxctl.formats.vision.family import UnclearError, whole
from mlxctl.ir import AudioRecipe


@dataclass(frozen=True, slots=True)
class AudioFiles:
    """Configurations of model, feature extractor and processor, and names of weights."""

    config: Mapping[str, Any]
    extractor: Mapping[str, Any]
    processor: Mapping[str, Any]
    tensor_names: Collection[str] = ()

    def check(self, **usual: float) -> None:
        """Raise UnclearError for a feature extractor with other values than the family's."""
        for name, value in usual.items():
            if self.extractor.get(name, value) != value:
                raise UnclearError(
                    f"{name} of its feature extractor is {self.extractor[name]!r}, not {value}"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioCut:
    """Audio as the model gets it.

    `layout` are its tokens: numbers of cells, and texts between them. `features` (frames, numbers) are
    float32.
    """

    layout: Sequence[int | str]
    features: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioFamily:
    """Models with one way to read audio of at most `max_seconds`.

    `cut` takes 16 kHz mono samples from -1 to 1 as float32. `shown` is the text of audio in the chat
    template, and `read` the text that replaces it; {} is the cell's token, which `cut` expands. `tokens` are
    texts that have to be tokens of the vocabulary.
    """

    name: str
    model_types: Sequence[str]
    max_seconds: int
    recipe: Callable[[AudioFiles], AudioRecipe]
    cut: Callable[[Any, AudioRecipe], AudioCut]
    read: str
    shown: str = "{}"
    tokens: Sequence[str] = ()


def audio_token_id(files: AudioFiles) -> int:
    """Return the id of a cell's token. Raises UnclearError."""
    return whole(files.config, "audio_token_id")
