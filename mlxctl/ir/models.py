"""What a model directory says about itself, read once without loading weights. Pure values."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mlxctl.ir.embeddings import EmbeddingRecipe
from mlxctl.ir.pictures import SightRecipe
from mlxctl.ir.speech import SpeechRecipe

Purpose = Literal["text", "embeddings", "speech"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """The files of a model as parsed JSON and text, checked for shape and trust, and what follows from them.

    `family` is whom the model talks like, None if that has no name here. `context_length` is the most tokens that prompt and answer
    may have together. `weights_bytes` is the size of the weight files on disk. `chat_template` is None for a model that has none,
    `embedding` for one that writes text, `sight` for one that sees nothing here, `speech` for one that does not write down speech;
    `sight_problem` is why, of one whose files claim that it sees. `dimensions` is the length of a model's vectors, None where its
    files do not tell.
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
    sight: SightRecipe | None = None
    sight_problem: str | None = None
    speech: SpeechRecipe | None = None

    @property
    def purpose(self) -> Purpose:
        """What it makes: text of a text, vectors, or text of speech."""
        return "embeddings" if self.embedding is not None else "text" if self.speech is None else "speech"
