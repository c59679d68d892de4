"""The code for each family of speech models. MLX thread only."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlxctl.engine.speech import kokoro, pocket_tts, qwen3_tts, soprano, voxtral_tts
from mlxctl.engine.speech.batch import SpeechBatch
from mlxctl.ir import SpeechRecipe


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechFamily:
    """How models of a family are opened and run.

    `modules` are imported on another thread first: they take seconds.
    """

    modules: tuple[str, ...]
    open_model: Callable[[Path], Any]
    create_batch: Callable[[Any, SpeechRecipe], SpeechBatch]


FAMILIES = {
    name: SpeechFamily(
        modules=family.MODULES,
        open_model=family.open_model,
        create_batch=family.create_batch,
    )
    for name, family in (
        ("qwen3_tts", qwen3_tts),
        ("soprano", soprano),
        ("pocket_tts", pocket_tts),
        ("voxtral_tts", voxtral_tts),
        ("kokoro", kokoro),
    )
}
