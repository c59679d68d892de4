"""What a model directory says about itself, read once without loading weights. Pure values."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mlxctl.ir.embeddings import EmbeddingRecipe
from mlxctl.ir.images import VisionRecipe
from mlxctl.ir.transcription import TranscriptionRecipe

Purpose = Literal["text", "embeddings", "speech"]

ProbeVerdict = Literal["yes", "no", "unknown"]
"""The answer that probing found to one question about a model."""

ModelState = Literal["loaded", "loading", "not_loaded", "failed"]
"""Whether a model is in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """The files of a model as parsed JSON and text, checked for shape and trust, and what follows from them.

    `family` is whom the model talks like, None if that has no name here. `context_length` is the most tokens
    that prompt and answer may have together. `weights_bytes` is the size of the weight files on disk.
    `chat_template` is None for a model that has none, `embedding` for one that writes text, `vision` for one
    that sees nothing here, `speech` for one that does not write down speech; `vision_problem` is why, of one
    whose files claim that it sees. `dimensions` is the length of a model's vectors, None where its files do
    not tell.
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
    embedding: EmbeddingRecipe | None = None
    dimensions: int | None = None
    vision: VisionRecipe | None = None
    vision_problem: str | None = None
    speech: TranscriptionRecipe | None = None

    @property
    def purpose(self) -> Purpose:
        """What it makes: text of a text, vectors, or text of speech."""
        return "embeddings" if self.embedding is not None else "text" if self.speech is None else "speech"
