"""What to load a model from, and for which task.

Pure values, sent from the front to the engine whole.
"""

from pathlib import Path

import msgspec

from mlxctl.ir.audio_input import AudioRecipe
from mlxctl.ir.embeddings import EmbeddingRecipe
from mlxctl.ir.images import VisionRecipe
from mlxctl.ir.kv_cache_size import KVFormats
from mlxctl.ir.speech import SpeechRecipe
from mlxctl.ir.transcription import TranscriptionRecipe


class DraftModelSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The directory of a draft model for speculative decoding.

    It has the vocabulary of the model, or is an MTP head that the model's weights lack. `weights_bytes` is
    the size of its weight files.
    """

    path: Path
    weights_bytes: int
    is_mtp_head: bool = False


class TextModelOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a text model is loaded, by the settings.

    The files of the model do not determine these values. `kv_format` quantizes its keys and values; None
    keeps them in the precision that the model computes. `draft` is loaded with it, and with `mtp_head` the
    MTP head in its weights.
    """

    kv_format: KVFormats | None = None
    draft: DraftModelSpec | None = None
    mtp_head: bool = False


NO_TEXT_OPTIONS = TextModelOptions()


class TextGenerationTask(msgspec.Struct, frozen=True, kw_only=True, tag="text_generation"):
    """Text from text, and from images and audio.

    `vision` and `audio` are their recipes, None for what the model does not take.
    """

    vision: VisionRecipe | None = None
    audio: AudioRecipe | None = None
    options: TextModelOptions = NO_TEXT_OPTIONS


class EmbeddingTask(msgspec.Struct, frozen=True, kw_only=True, tag="embedding"):
    """The model computes vectors from texts."""

    recipe: EmbeddingRecipe


class TranscriptionTask(msgspec.Struct, frozen=True, kw_only=True, tag="transcription"):
    """The model transcribes audio."""

    recipe: TranscriptionRecipe


class SpeechGenerationTask(msgspec.Struct, frozen=True, kw_only=True, tag="speech"):
    """The model speaks text."""

    recipe: SpeechRecipe


ModelTask = TextGenerationTask | EmbeddingTask | TranscriptionTask | SpeechGenerationTask
"""The kind of work that a model is loaded for, with everything that only this kind needs."""


class ModelSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A model directory, the name it is served under, and its task.

    `weights_bytes` is the size of its weight files. Code from the directory runs only with
    `trust_remote_code`.
    """

    name: str
    path: Path
    weights_bytes: int
    trust_remote_code: bool = False
    task: ModelTask = TextGenerationTask()
