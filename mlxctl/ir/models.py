"""Facts and capabilities of a model, without its weights. Pure values."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from mlxctl.ir.audio_input import AudioRecipe
from mlxctl.ir.embeddings import EmbeddingRecipe
from mlxctl.ir.images import VisionRecipe
from mlxctl.ir.model_spec import (
    NO_TEXT_OPTIONS,
    EmbeddingTask,
    ModelSpec,
    ModelTask,
    SpeechGenerationTask,
    TextGenerationTask,
    TextModelOptions,
    TranscriptionTask,
)
from mlxctl.ir.speech import SpeechRecipe
from mlxctl.ir.transcription import TranscriptionPurpose, TranscriptionRecipe

ToolDelivery = Literal["template", "injected"]
Purpose = Literal["text", "embeddings", "speech"] | TranscriptionPurpose

ProbeVerdict = Literal["yes", "no", "unknown"]
"""The answer that probing found to one question about a model."""

_MEDIA_QUESTIONS = {
    "supports_vision": "vision",
    "supports_multi_image": "multi_image",
    "supports_video": "video",
    "supports_audio_input": "audio",
}
# What follows from the files alone; whether images are told apart, or frames, does not.
_FOUND_IN_FILES = ("supports_vision", "supports_audio_input")


def media_support(
    verdicts: Mapping[str, ProbeVerdict], *, images: bool | None, audio: bool | None
) -> dict[str, bool | None]:
    """Return which media a language model answers to.

    By the names of `/v1/models`. `verdicts` of probing decide, by question. Without one, a model answers to
    `images` and `audio` if it takes them, and None says that it was not tested.
    """
    found: dict[str, bool | None] = {}
    for name, question in _MEDIA_QUESTIONS.items():
        taken = audio if question == "audio" else images
        verdict = verdicts.get(question)
        if taken is False or verdict == "no":
            found[name] = False
        else:
            found[name] = True if verdict == "yes" else taken if name in _FOUND_IN_FILES else None
    return found


ModelState = Literal["loaded", "loading", "probing", "not_loaded", "failed"]
"""Whether a model is in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextLimit:
    """Why a model's context is shorter than its files say.

    `reason` names the source and how to change it. With `is_memory` there is no memory for a longer context;
    otherwise the operator set the limit.
    """

    reason: str
    is_memory: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """A model's configuration files, checked, and what follows from them.

    `family` is the key of the family's profile, None if unknown. `context_length` is the maximum number of
    tokens of prompt and answer together, `context_limit` why it is less than its files say, if it is.
    `weights_bytes` is the size of the weight files on disk. `default_max_tokens` (`max_new_tokens` of
    generation_config.json) limits answers to requests without a limit; None is the rest of the context.
    `chat_template` is None for a model without one, `tool_template` for one without a template of its own for
    requests with tools, `embedding` for one that generates text, `vision` for one that takes no images here,
    `audio` for one that answers to no audio, `transcription` for one that transcribes none, `speech` for one
    that speaks no text; `vision_problem` and `audio_problem` are why a model for images or audio takes none.
    `dimensions` is the length of a model's vectors, None where its files do not contain it.
    """

    path: Path
    model_type: str
    family: str | None
    config: Mapping[str, Any]
    generation_config: Mapping[str, Any]
    tokenizer_config: Mapping[str, Any]
    chat_template: str | None
    context_length: int
    weights_bytes: int
    context_limit: ContextLimit | None = None
    default_max_tokens: int | None = None
    embedding: EmbeddingRecipe | None = None
    tool_template: str | None = None
    dimensions: int | None = None
    vision: VisionRecipe | None = None
    vision_problem: str | None = None
    audio: AudioRecipe | None = None
    audio_problem: str | None = None
    transcription: TranscriptionRecipe | None = None
    speech: SpeechRecipe | None = None

    @property
    def media(self) -> tuple[object, ...]:
        """What decides which media it takes."""
        return self.vision, self.vision_problem, self.audio, self.audio_problem

    def without_encoders(self, problem: str | None) -> "ModelFacts":
        """Return the facts without images and audio, if there is a problem."""
        if problem is None:
            return self
        return replace(
            self,
            vision=None,
            vision_problem=self.vision_problem if self.vision is None else problem,
            audio=None,
            audio_problem=self.audio_problem if self.audio is None else problem,
        )

    @property
    def purpose(self) -> Purpose:
        """The model's output: text, vectors, speech, or findings in audio."""
        if self.embedding is not None:
            return "embeddings"
        if self.speech is not None:
            return "speech"
        return "text" if self.transcription is None else self.transcription.purpose

    def spec(
        self, name: str, *, trust_remote_code: bool = False, options: TextModelOptions = NO_TEXT_OPTIONS
    ) -> ModelSpec:
        """Return how the engine loads the model as `name`.

        Only text generation uses `options`.
        """
        draft = options.draft
        return ModelSpec(
            name=name,
            path=self.path,
            weights_bytes=self.weights_bytes + (draft.weights_bytes if draft is not None else 0),
            trust_remote_code=trust_remote_code,
            task=self._task(options),
        )

    def _task(self, options: TextModelOptions) -> ModelTask:
        if self.embedding is not None:
            return EmbeddingTask(recipe=self.embedding)
        if self.transcription is not None:
            return TranscriptionTask(recipe=self.transcription)
        if self.speech is not None:
            return SpeechGenerationTask(recipe=self.speech)
        return TextGenerationTask(vision=self.vision, audio=self.audio, options=options)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCapabilities:
    """What a probe measured or the operator configured.

    None means unknown: the adapter then detects it from the model's files. `tool_delivery` is how tools reach
    the model: by the chat template, or in the system prompt. The ids are those of parsers.
    """

    tools: bool | None = None
    tool_parser_id: str | None = None
    tool_delivery: ToolDelivery | None = None
    thinking: bool | None = None
    thinking_parser_id: str | None = None
