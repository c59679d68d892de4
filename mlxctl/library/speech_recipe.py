"""What a speech model can do, from the files of its directory.

A family is supported if it needs nothing beside its directory: mlx-audio would fetch the codecs, tokenizers
and voices of others from the hub when it loads them.
"""

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mlxctl.ir import SpeechRecipe
from mlxctl.ir.errors import BrokenModel
from mlxctl.ir.speech import KOKORO_MAX_FRAMES, QWEN3_TTS_MAX_FRAMES, VOXTRAL_TTS_MAX_FRAMES
from mlxctl.library.files import read_json_object
from mlxctl.library.names import display_name
from mlxctl.library.safetensors_headers import read_tensors
from mlxctl.library.weights import sum_tensors
from mlxctl.state.installed import file_of, missing_for

CODEC_FOLDER = "speech_tokenizer"
"""The folder of Qwen3-TTS models with the weights of their codec."""

# mlx-audio's default voices.
_DEFAULT_VOICE, _VOXTRAL_VOICE, _KOKORO_VOICE = "alba", "casual_male", "af_heart"
# The first letter of Kokoro's American and British voices.
_ENGLISH_VOICES = ("a", "b")
# Arrays of the size of its sound that a residual block holds.
_KOKORO_COPIES = 4
_MAX_VOICES = 1000
# Policies: a sentence of 300 characters with instructions and a recording of ten seconds, and what mlx-audio
# writes at most for it.
_PROMPT_TOKENS = 512
_SOPRANO_MAX_TOKENS = 512
_POCKET_CACHE_TOKENS = 2000


def speech_family(config: Mapping[str, Any], name: str) -> str | None:
    """Return the key of the family, None for other models.

    Conversions of Soprano have the type of their language model: only `name` tells them from others.
    """
    model_type = str(config.get("model_type") or config.get("architecture") or "")
    for family, fields in _FIELDS.items():
        if not model_type and fields <= config.keys():
            return family
    if model_type == "qwen3" and "soprano" in name.lower():
        return "soprano"
    family = _MODEL_TYPES.get(model_type, model_type)
    return family if family in _READERS else None


def read_speech_recipe(path: Path, config: Mapping[str, Any]) -> SpeechRecipe | None:
    """Read what the model in `path` can do.

    None for other models. Raises BrokenModel for malformed and missing files, missing packages, and a
    directory with Python code, which is never run.
    """
    family = speech_family(config, display_name(path))
    if family is None:
        return None
    if missing := missing_for("audio"):
        raise _broken(path, f"speaks text, which needs {missing}")
    if code := next(iter(sorted(path.rglob("*.py"))), None):
        raise _broken(path, f"has Python code ({code.relative_to(path)}); code of speech models is never run")
    return _READERS[family](path, config)


def speech_weights_bytes(path: Path) -> int:
    """Return the size of the codec's weight files.

    A speech model may have them beside its own.
    """
    return sum(file.stat().st_size for file in path.glob(f"{CODEC_FOLDER}/*.safetensors"))


def _read_qwen3_tts(path: Path, config: Mapping[str, Any]) -> SpeechRecipe:
    codec = read_json_object(path, f"{CODEC_FOLDER}/config.json")
    if codec is None or not any(path.glob(f"{CODEC_FOLDER}/*.safetensors")):
        raise _broken(path, f"has no codec: {CODEC_FOLDER}/config.json with weights")
    _require_tokenizer(path, ("tokenizer.json",), ("vocab.json", "merges.txt"))
    talker = config.get("talker_config")
    if not isinstance(talker, dict):
        raise _broken(path, "has no talker_config in config.json")
    kind = config.get("tts_model_type", "base")
    # The caches of requests are merged into new ones when another begins or ends.
    request_bytes = 2 * _cache_bytes(path, talker, num_tokens=_PROMPT_TOKENS + QWEN3_TTS_MAX_FRAMES)
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
        request_bytes=request_bytes,
    )


def _read_soprano(path: Path, config: Mapping[str, Any]) -> SpeechRecipe:
    _require_tokenizer(path, ("tokenizer.json",))
    return SpeechRecipe(
        family="soprano",
        sample_rate=_rate(path, config.get("sample_rate", 32_000)),
        request_bytes=_cache_bytes(path, config, num_tokens=_PROMPT_TOKENS + _SOPRANO_MAX_TOKENS),
    )


def _read_pocket_tts(path: Path, config: Mapping[str, Any]) -> SpeechRecipe:
    _require_tokenizer(path, ("tokenizer.model",), ("tokenizer.json",))
    mimi, flow = config.get("mimi"), config.get("flow_lm")
    if not isinstance(mimi, dict) or not isinstance(flow, dict):
        raise _broken(path, "has no mimi and flow_lm in config.json")
    transformer = flow.get("transformer", flow)
    width = _size(path, transformer, "d_model")
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
        # Keys and values in float32.
        request_bytes=2 * _size(path, transformer, "num_layers") * width * 4 * _POCKET_CACHE_TOKENS,
    )


def _read_voxtral_tts(path: Path, config: Mapping[str, Any]) -> SpeechRecipe:
    if file_of("mistral_common") is None:
        raise _broken(path, "needs mistral-common (pip install 'mistral-common[audio]')")
    _require_tokenizer(path, ("tekken.json",))
    voices = _files(path / "voice_embedding")
    if not voices:
        raise _broken(path, "has no voices (voice_embedding/*.safetensors)")
    # The names and defaults of mlx-audio.
    sizes = {
        "num_hidden_layers": config.get("n_layers", 26),
        "num_key_value_heads": config.get("n_kv_heads", 8),
        "head_dim": config.get("head_dim", 128),
    }
    return SpeechRecipe(
        family="voxtral_tts",
        sample_rate=_rate(path, config.get("sample_rate", 24_000)),
        voices=sorted(voices),
        default_voice=_VOXTRAL_VOICE if _VOXTRAL_VOICE in voices else min(voices),
        request_bytes=_cache_bytes(path, sizes, num_tokens=_PROMPT_TOKENS + VOXTRAL_TTS_MAX_FRAMES),
    )


def _read_kokoro(path: Path, config: Mapping[str, Any]) -> SpeechRecipe:
    if missing := missing_for("kokoro"):
        raise _broken(path, f"needs {missing}, which is for Python before 3.13")
    voices = {name for name in _files(path / "voices") if name.startswith(_ENGLISH_VOICES)}
    if not voices:
        raise _broken(path, "has no English voices (voices/a*.safetensors or voices/b*.safetensors)")
    if not isinstance(config.get("vocab"), dict):
        raise _broken(path, "has no vocab in config.json")
    layers = config.get("istftnet")
    rates = layers.get("upsample_rates") if isinstance(layers, dict) else None
    if not isinstance(rates, list) or not all(isinstance(rate, int) and 0 < rate < 1000 for rate in rates):
        raise _broken(path, f"has no usable upsample_rates in config.json: {rates!r}")
    # Two frames for each, in float32: states of the last layers and what they are computed from.
    places = 2 * KOKORO_MAX_FRAMES * math.prod(rates)
    width = _size(path, layers, "upsample_initial_channel") >> len(rates)
    return SpeechRecipe(
        family="kokoro",
        sample_rate=_rate(path, config.get("sample_rate", 24_000)),
        voices=sorted(voices),
        default_voice=_KOKORO_VOICE if _KOKORO_VOICE in voices else min(voices),
        takes_speed=True,
        latin_only=True,
        request_bytes=4 * _KOKORO_COPIES * places * max(1, width),
    )


_READERS: dict[str, Callable[[Path, Mapping[str, Any]], SpeechRecipe]] = {
    "qwen3_tts": _read_qwen3_tts,
    "soprano": _read_soprano,
    "pocket_tts": _read_pocket_tts,
    "voxtral_tts": _read_voxtral_tts,
    "kokoro": _read_kokoro,
}
_FIELDS = {"pocket_tts": {"flow_lm", "mimi"}, "kokoro": {"istftnet", "plbert"}}
"""What the configuration of a family has that names no type."""
_MODEL_TYPES = {"gradium_phonon_tts": "pocket_tts"}
SPEECH_FAMILIES = tuple(_READERS)
"""The families that can speak here."""


def _cache_bytes(path: Path, config: Mapping[str, Any], *, num_tokens: int) -> int:
    """Return the bytes of keys and values.

    They have the type of the weights.
    """
    names = ("num_hidden_layers", "num_key_value_heads", "head_dim")
    layers, heads, width = (_size(path, config, name) for name in names)
    weights = sum_tensors(read_tensors(path), config)
    return 2 * layers * heads * width * num_tokens * (weights.float_bytes or 4)


def _size(path: Path, config: Any, name: str) -> int:
    value = config.get(name) if isinstance(config, Mapping) else None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 1 << 20:
        raise _broken(path, f"has no usable {name} in config.json: {value!r}")
    return value


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
