"""What a family of vision models declares, and readers of its files."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mlxctl.ir import Clip, VisionRecipe

BILINEAR, BICUBIC, _NUM_FILTERS = 2, 3, 6
CLIP_COLORS = ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))
EVEN_COLORS = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
PLAIN_COLORS = ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))


class UnclearError(ValueError):
    """A configuration file lacks a needed value."""


@dataclass(frozen=True, slots=True)
class VisionFiles:
    """Configurations of model, its parts and processors, and names of weights."""

    config: Mapping[str, Any]
    text: Mapping[str, Any]
    vision: Mapping[str, Any]
    image_processor: Mapping[str, Any]
    processor: Mapping[str, Any]
    tokenizer: Mapping[str, Any]
    video_processor: Mapping[str, Any]
    tensor_names: Collection[str] = ()
    size: Mapping[str, Any] = field(init=False)
    video_size: Mapping[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        for name, values in (("size", self.image_processor), ("video_size", self.video_processor)):
            size = values.get("size")
            object.__setattr__(self, name, size if isinstance(size, Mapping) else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageCut:
    """One image, or a group of frames, as the model gets it.

    `layout` are its tokens: numbers of cells, and texts between them. `tiles` are pictures (Pillow, RGB) for
    the encoder. `num_positions` is how far positions advance, None for one a token. With `is_whole` its
    tokens attend to each other in both directions. `time` is added to its positions in time.
    """

    layout: Sequence[int | str]
    tiles: Sequence[Any]
    num_positions: int | None = None
    is_whole: bool = False
    time: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipFormat:
    """How a family reads clips.

    A clip is groups of frames, each in the place of a cell. `write` returns a clip's text with {} for the
    cell of each group, and `cut` the groups. `tokens` are texts that have to be tokens of the vocabulary,
    and with `has_own_cell` the recipe's `video_token_id` too.
    """

    write: Callable[[Clip, VisionRecipe], str]
    cut: Callable[[Clip, VisionRecipe], Sequence[ImageCut]]
    max_frames: int = 768
    has_own_cell: bool = False
    tokens: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class VisionFamily:
    """Vision models with one way to cut images.

    `shown` is the text of an image in the chat template, and `read` the text that replaces it; {} is the
    cell's token, which `cut` expands. `tokens` are texts that have to be tokens of the vocabulary.
    `rewritten` are further texts of a prompt with images, each with the text that replaces it. Without
    `clips` the frames of a clip are images. `number` returns the text before an image, or a clip, from its
    number in the prompt, which begins at 0. A prompt has at most `max_images`.
    """

    name: str
    model_types: Sequence[str]
    recipe: Callable[[VisionFiles], VisionRecipe]
    cut: Callable[[Any, VisionRecipe], ImageCut]
    shown: str = "{}"
    read: str = "{}"
    tokens: Sequence[str] = ()
    rewritten: Sequence[tuple[str, str]] = ()
    clips: ClipFormat | None = None
    number: Callable[[int, VisionRecipe], str] | None = None
    max_images: int | None = None


def image_token_id(files: VisionFiles, text: str = "") -> int:
    """Return the id of a cell's token, which is `text`. Raises UnclearError."""
    added = files.tokenizer.get("added_tokens_decoder")
    for token_id, token in added.items() if text and isinstance(added, Mapping) else ():
        if isinstance(token, Mapping) and token.get("content") == text and token_id.isdecimal():
            return int(token_id)
    names = ("image_token_index", "image_token_id", "media_placeholder_token_id")
    found = next((name for name in names if files.config.get(name) is not None), "image_token_id")
    return whole(files.config, found)


def video_token_id(files: VisionFiles) -> int | None:
    """Return the id of the token of a clip's cells, or None."""
    found = files.config.get("video_token_id", files.config.get("video_token_index"))
    return found if isinstance(found, int) else None


def minutes(seconds: float) -> str:
    """Return a time in a clip as 00:00."""
    return f"{int(seconds // 60):02d}:{int(seconds % 60):02d}"


def whole(values: Mapping[str, Any], name: str, *, usual: int | None = None, least: int = 1) -> int:
    """Return a whole number of a configuration. Raises UnclearError."""
    number = values.get(name)
    number = usual if number is None else number
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    if not isinstance(number, int) or isinstance(number, bool) or number < least:
        raise UnclearError(f"{name} is {number!r}, not a size")
    return number


def colors(
    files: VisionFiles, usual: tuple[Any, Any], resample: int, *, normalizes: bool = True
) -> dict[str, Any]:
    """Return the recipe's fields of colors and filter. Raises UnclearError.

    `usual` are the mean and deviation, `resample` the filter, and `normalizes` whether colors are normalized,
    where the files do not say.
    """
    chosen = files.image_processor.get("resample")
    chosen = resample if chosen is None else chosen
    if chosen not in range(_NUM_FILTERS):
        raise UnclearError(f"resample is {chosen!r}, not a filter")
    if not files.image_processor.get("do_normalize", normalizes):
        usual_mean, usual_deviation = PLAIN_COLORS
        return {"mean": usual_mean, "deviation": usual_deviation, "resample": int(chosen)}
    mean, deviation = (
        _three(files.image_processor, name, other)
        for name, other in zip(("image_mean", "image_std"), usual, strict=True)
    )
    return {"mean": mean, "deviation": deviation, "resample": int(chosen)}


def _three(values: Mapping[str, Any], name: str, usual: tuple[float, ...]) -> tuple[float, ...]:
    value = values.get(name) or list(usual)
    if (
        not isinstance(value, list)
        or len(value) != len(usual)
        or not all(isinstance(number, int | float) for number in value)
    ):
        raise UnclearError(f"{name} is {value!r}, not three colors")
    return tuple(map(float, value))
