"""What a speech model can do, from the files of its directory.

A family is supported if it needs nothing beside its directory: mlx-audio would fetch the codecs, tokenizers
and voices of others from the hub when it loads them.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mlxctl.ir import SpeechRecipe
from mlxctl.ir.errors import BrokenModel
from mlxctl.library.files import read_json_object
from mlxctl.library.names import display_name
from mlxctl.library.safetensors_headers import read_tensors
from mlxctl.state.installed import missing_for

_DEFAULT_VOICE = "alba"
_MAX_VOICES = 1000


def speech_family(config: Mapping[str, Any]) -> str | None:
    """Return the key of the family, None for a model that is not spoken with here."""
    model_type = str(config.get("model_type") or config.get("architecture") or "")
    family = _MODEL_TYPES.get(model_type, model_type)
    return family if family in _READERS else None


def supports_speech(config: Mapping[str, Any]) -> bool:
    """Whether the family is supported and its packages are installed."""
    return speech_family(config) is not None and missing_for("audio") is None


def read_speech_recipe(path: Path, config: Mapping[str, Any]) -> SpeechRecipe | None:
    """Read what the model in `path` can do.

    None for other models. Raises BrokenModel for malformed and missing files, missing packages, and a
    directory with Python code, which is never run.
    """
    family = speech_family(config)
    if family is None:
        return None
    if missing := missing_for("audio"):
        raise _broken(path, f"speaks text, which needs {missing}")
    if code := next(iter(sorted(path.rglob("*.py"))), None):
        raise _broken(path, f"has Python code ({code.relative_to(path)}); code of speech models is never run")
    return _READERS[family](path, config)


def speech_weights_bytes(path: Path) -> int:
    """Return the size of weight files in folders, which a speech model has beside its own."""
    return sum(file.stat().st_size for file in path.glob("speech_tokenizer/*.safetensors"))


def _read_qwen3_tts(path: Path, config: Mapping[str, Any]) -> SpeechRecipe:
    if not any(path.glob("speech_tokenizer/*.safetensors")):
        raise _broken(path, "has no weights in speech_tokenizer/")
    codec = read_json_object(path, "speech_tokenizer/config.json")
    if codec is None:
        raise _broken(path, "has no speech_tokenizer/config.json")
    _require_tokenizer(path, ("tokenizer.json",), ("vocab.json", "merges.txt"))
    talker = config.get("talker_config")
    if not isinstance(talker, dict):
        raise _broken(path, "has no talker_config in config.json")
    kind = config.get("tts_model_type", "base")
    voices = sorted(talker.get("spk_id") or {})
    languages = sorted(name for name in talker.get("codec_language_id") or {} if "dialect" not in name)
    return SpeechRecipe(
        family="qwen3_tts",
        sample_rate=_rate(path, config.get("sample_rate", 24_000)),
        voices=voices if kind == "custom_voice" else [],
        default_voice=voices[0] if voices and kind == "custom_voice" else None,
        languages=languages,
        clones_voices=kind == "base" and isinstance(codec.get("encoder_config"), dict),
        follows_instructions=kind == "voice_design"
        or (kind == "custom_voice" and config.get("tts_model_size") != "0b6"),
        requires="instructions" if kind == "voice_design" else None,
    )


def _read_soprano(path: Path, config: Mapping[str, Any]) -> SpeechRecipe:
    _require_tokenizer(path, ("tokenizer.json",))
    return SpeechRecipe(family="soprano", sample_rate=_rate(path, config.get("sample_rate", 32_000)))


def _read_pocket_tts(path: Path, config: Mapping[str, Any]) -> SpeechRecipe:
    _require_tokenizer(path, ("tokenizer.model",), ("tokenizer.json",))
    mimi = config.get("mimi")
    if not isinstance(mimi, dict):
        raise _broken(path, "has no mimi in config.json")
    voices = _files(path / "voices") | _files(path / "embeddings")
    if (path / "default-voice.safetensors").is_file():
        voices.add("default")
    clones_voices = any(tensor.name.startswith("mimi.encoder.") for tensor in read_tensors(path))
    if not voices and not clones_voices:
        raise _broken(path, "has no voices (voices/*.safetensors), and no encoder to clone one")
    first = next((name for name in ("default", _DEFAULT_VOICE) if name in voices), min(voices, default=None))
    return SpeechRecipe(
        family="pocket_tts",
        sample_rate=_rate(path, mimi.get("sample_rate")),
        voices=sorted(voices),
        default_voice=first,
        clones_voices=clones_voices,
        requires=None if voices else "reference",
    )


_READERS: dict[str, Callable[[Path, Mapping[str, Any]], SpeechRecipe]] = {
    "qwen3_tts": _read_qwen3_tts,
    "soprano": _read_soprano,
    "pocket_tts": _read_pocket_tts,
}
_MODEL_TYPES = {"gradium_phonon_tts": "pocket_tts"}
SPEECH_FAMILIES = tuple(_READERS)
"""The families that can speak here."""


def _files(folder: Path) -> set[str]:
    return {file.stem for file in sorted(folder.glob("*.safetensors"))[:_MAX_VOICES]}


def _require_tokenizer(path: Path, *choices: tuple[str, ...]) -> None:
    """Raise BrokenModel unless all files of one of the choices are there."""
    if not any(all((path / name).is_file() for name in names) for names in choices):
        raise _broken(path, f"has no {' or '.join(' and '.join(names) for names in choices)}")


def _rate(path: Path, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= 384_000:
        raise _broken(path, f"has no usable sample_rate in config.json: {value!r}")
    return value


def _broken(path: Path, what: str) -> BrokenModel:
    return BrokenModel(path, f"speech model {display_name(path)!r} {what}")
