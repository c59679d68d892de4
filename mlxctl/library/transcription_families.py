"""Families of mlx-audio's transcription models.

How to know one, and what a request may ask of it.
Each has a module of the same name in `engine/audio/families`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlxctl.ir import TranscriptionRecipe
from mlxctl.ir.errors import BrokenModel
from mlxctl.ir.languages import LANGUAGE_NAMES, language_code
from mlxctl.ir.transcription import SAMPLE_RATE, TranscriptionPurpose
from mlxctl.library.names import display_name

_QWEN3_LANGUAGES = (
    "ar", "cs", "da", "de", "el", "en", "es", "fa", "fi", "fil", "fr", "hi", "hu", "id", "it", "ja", "ko",
    "mk", "ms", "nl", "pl", "pt", "ro", "ru", "sv", "th", "tr", "vi", "yue", "zh",
)  # fmt: skip
# Those of Canary and of Parakeet v3.
_EUROPEAN_LANGUAGES = (
    "bg", "cs", "da", "de", "el", "en", "es", "et", "fi", "fr", "hr", "hu", "it", "lt", "lv", "mt", "nl",
    "pl", "pt", "ro", "ru", "sk", "sl", "sv", "uk",
)  # fmt: skip
_CYRILLIC, _GREEK = "\u0436", "\u03b8"
# Of the pieces of an English vocabulary; those of other languages in Latin letters have many more.
_MAX_FOREIGN_SHARE = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptionFamily:
    """A family, as `TranscriptionRecipe` describes it.

    `files` are patterns of files that a model needs beside configuration and weights; `|` is or.
    """

    window_seconds: float
    languages: tuple[str, ...] | None = None
    has_word_times: bool = False
    takes_prompt: bool = False
    takes_temperature: bool = False
    purpose: TranscriptionPurpose = "transcription"
    files: tuple[str, ...] = ()


TRANSCRIPTION_FAMILIES = {
    # Longer windows cost memory by the square of their length, and steps that others wait for.
    "parakeet": TranscriptionFamily(window_seconds=60, has_word_times=True),
    "qwen3_asr": TranscriptionFamily(
        window_seconds=60,
        languages=_QWEN3_LANGUAGES,
        takes_prompt=True,
        takes_temperature=True,
        files=("preprocessor_config.json", "tokenizer_config.json"),
    ),
    # Trained with at most 40 seconds.
    "canary": TranscriptionFamily(window_seconds=40, languages=_EUROPEAN_LANGUAGES, takes_temperature=True),
    "sensevoice": TranscriptionFamily(
        window_seconds=30, languages=("en", "ja", "ko", "yue", "zh"), files=("*.bpe.model|tokens.json",)
    ),
    "voxtral": TranscriptionFamily(
        window_seconds=30,
        languages=("de", "en", "es", "fr", "hi", "it", "nl", "pt"),
        takes_temperature=True,
        files=("preprocessor_config.json", "tekken.json"),
    ),
    "voxtral_realtime": TranscriptionFamily(
        window_seconds=30, takes_temperature=True, files=("tekken.json",)
    ),
    "qwen3_forced_aligner": TranscriptionFamily(
        window_seconds=60, purpose="alignment", files=("preprocessor_config.json", "tokenizer_config.json")
    ),
    # 62 of its frames: mlx-audio's chunks are of 5 seconds.
    "sortformer": TranscriptionFamily(window_seconds=4.96, purpose="diarization"),
}


def find_other_family(config: Mapping[str, Any]) -> str | None:
    """Return the family of a model; None for another kind."""
    model_type = str(config.get("model_type") or "")
    thinker = config.get("thinker_config")
    if isinstance(thinker, Mapping) and str(thinker.get("model_type")) in TRANSCRIPTION_FAMILIES:
        model_type = str(thinker["model_type"])
    if not model_type and str(config.get("target", "")).startswith("nemo.collections.asr"):
        model_type = "parakeet"
    return model_type if model_type in TRANSCRIPTION_FAMILIES else None


def read_other_family(path: Path, config: Mapping[str, Any], name: str) -> TranscriptionRecipe:
    """Return the recipe of a model of a family.

    Raises BrokenModel for missing files, files with code, and audio at another rate.
    """
    family = TRANSCRIPTION_FAMILIES[name]
    if code := sorted(path.glob("*.py")):
        raise BrokenModel(
            path,
            f"model {display_name(path)!r} brings Python code ({code[0].name}), which is never run for "
            "speech models; take a conversion without it",
        )
    for patterns in (each.split("|") for each in family.files):
        if not any(found for pattern in patterns for found in path.glob(pattern)):
            raise BrokenModel(path, f"model {display_name(path)!r} has no {' or '.join(patterns)}")
    rate = (config.get("preprocessor") or {}).get("sample_rate", SAMPLE_RATE)
    if rate != SAMPLE_RATE:
        raise BrokenModel(
            path, f"model {display_name(path)!r} takes audio at {rate} Hz; {SAMPLE_RATE} Hz are supported"
        )
    return TranscriptionRecipe(
        family=name,
        window_samples=round(family.window_seconds * SAMPLE_RATE),
        languages=_languages(config, family),
        has_word_times=family.has_word_times,
        takes_prompt=family.takes_prompt,
        takes_temperature=family.takes_temperature,
        purpose=family.purpose,
    )


def _languages(config: Mapping[str, Any], family: TranscriptionFamily) -> tuple[str, ...] | None:
    """Return the family's languages that the configuration names, or all.

    Parakeet takes no language token: a request may name the languages of its vocabulary.
    """
    if family is TRANSCRIPTION_FAMILIES["parakeet"]:
        return _written_languages(config)
    named = config.get("support_languages")
    if family.languages is None or not isinstance(named, list) or not named:
        return family.languages
    codes = {language_code(str(name)) or str(name).lower() for name in named}
    return tuple(code for code in family.languages if code in codes & LANGUAGE_NAMES.keys())


def _written_languages(config: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the languages of a vocabulary, None if unknown."""
    parts = (config.get(name) for name in ("joint", "decoder"))
    found = (part.get("vocabulary") for part in parts if isinstance(part, Mapping))
    pieces = next((each for each in found if isinstance(each, list) and each), [])
    foreign = [
        piece for piece in map(str, pieces) if any(char.isalpha() and not char.isascii() for char in piece)
    ]
    letters = set("".join(foreign))
    if _CYRILLIC in letters and _GREEK in letters:
        return _EUROPEAN_LANGUAGES
    return ("en",) if pieces and len(foreign) <= _MAX_FOREIGN_SHARE * len(pieces) else None
