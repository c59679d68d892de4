"""How a transcription model takes audio, from its configuration files.

Reads `config.json`, `tokenizer.json` and `generation_config.json`, of Whisper (arXiv:2212.04356) as Hugging
Face and conversions for MLX write it; other families are in `transcription_families`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlxctl.ir import TranscriptionRecipe, WhisperTokens
from mlxctl.ir.errors import BrokenModel
from mlxctl.ir.transcription import STEP_SAMPLES
from mlxctl.library.files import read_json_object, read_optional_json
from mlxctl.library.names import display_name
from mlxctl.library.transcription_families import find_other_family, read_other_family
from mlxctl.state.installed import missing_for

_WHISPER = "whisper"

# A vocabulary of at least this size is multilingual; English models have a smaller one.
_MULTILINGUAL_SIZE = 51_865
_LONGEST_LANGUAGE = 3
# Of a model with one.
_ONLY_LANGUAGE = "en"


def transcription_family(config: Mapping[str, Any]) -> str | None:
    """Return the family of a transcription model; None for others."""
    return _WHISPER if config.get("model_type") == _WHISPER else find_other_family(config)


def supports_transcription(config: Mapping[str, Any]) -> bool:
    """Whether the kind is supported and its packages are installed."""
    return transcription_family(config) is not None and missing_for("audio") is None


def read_transcription_recipe(path: Path, config: Mapping[str, Any]) -> TranscriptionRecipe | None:
    """Read the audio input of the model in `path`.

    None for other kinds. Raises BrokenModel for malformed files and missing packages.
    """
    family = transcription_family(config)
    if family is None:
        return None
    if missing := missing_for("audio"):
        raise BrokenModel(path, f"model {display_name(path)!r} transcribes speech, which needs {missing}")
    if family != _WHISPER:
        return read_other_family(path, config, family)
    generation = read_optional_json(path, "generation_config.json")
    size = _size(path, config, "n_vocab", "vocab_size")
    ids = _special_ids(path, size)
    is_multilingual = generation.get("is_multilingual", size >= _MULTILINGUAL_SIZE)
    languages = _languages(path, ids) if is_multilingual else {}
    context_length = _size(path, config, "n_text_ctx", "max_target_positions")
    return TranscriptionRecipe(
        family=_WHISPER,
        window_samples=STEP_SAMPLES * _size(path, config, "n_audio_ctx", "max_source_positions"),
        context_length=context_length,
        languages=tuple(sorted(languages)) or (_ONLY_LANGUAGE,),
        has_word_times=True,
        takes_prompt=True,
        takes_temperature=True,
        translates=bool(languages),
        whisper=WhisperTokens(
            context_length=context_length,
            start=_id(path, ids, "<|startoftranscript|>"),
            end=_id(path, ids, "<|endoftext|>"),
            previous=_id(path, ids, "<|startofprev|>"),
            no_times=_id(path, ids, "<|notimestamps|>"),
            first_time=_id(path, ids, "<|0.00|>"),
            transcribe=_id(path, ids, "<|transcribe|>"),
            translate=_id(path, ids, "<|translate|>"),
            no_speech=ids.get("<|nospeech|>", ids.get("<|nocaptions|>")),
            languages=languages,
            suppressed=_ids(path, generation, "suppress_tokens", size=size),
            suppressed_first=_ids(path, generation, "begin_suppress_tokens", size=size),
            alignment_heads=_heads(path, config, generation),
        ),
    )


def _special_ids(path: Path, size: int) -> dict[str, int]:
    """Return the ids of the added tokens. Raises BrokenModel for impossible ids."""
    added = (read_json_object(path, "tokenizer.json") or {}).get("added_tokens")
    entries = [entry for entry in added if isinstance(entry, dict)] if isinstance(added, list) else []
    ids = {entry.get("content"): entry.get("id") for entry in entries}
    for content, token_id in ids.items():
        if not isinstance(content, str) or not isinstance(token_id, int) or not 0 <= token_id < size:
            raise BrokenModel(
                path,
                f"tokenizer.json of model {display_name(path)!r} has an invalid token: {content!r} is "
                f"{token_id!r}",
            )
    return {str(content): int(token_id or 0) for content, token_id in ids.items()}


def _languages(path: Path, ids: Mapping[str, int]) -> dict[str, int]:
    """Return the token ids of languages by code.

    They are between the start token and the first task token.
    """
    first = _id(path, ids, "<|startoftranscript|>")
    last = min(_id(path, ids, "<|translate|>"), _id(path, ids, "<|transcribe|>"))
    codes = {token[2:-2]: token_id for token, token_id in ids.items() if first < token_id < last}
    return {
        code: token_id
        for code, token_id in codes.items()
        if code.isalpha() and len(code) <= _LONGEST_LANGUAGE
    }


def _id(path: Path, ids: Mapping[str, int], token: str) -> int:
    if token not in ids:
        raise BrokenModel(
            path, f"tokenizer.json of speech model {display_name(path)!r} has no token {token!r}"
        )
    return ids[token]


def _ids(path: Path, generation: Mapping[str, Any], name: str, *, size: int) -> tuple[int, ...]:
    found = generation.get(name) or []
    if not isinstance(found, list) or not all(
        isinstance(token_id, int) and 0 <= token_id < size for token_id in found
    ):
        raise BrokenModel(
            path, f"generation_config.json of model {display_name(path)!r} has no list of tokens for {name}"
        )
    return tuple(found)


def _heads(
    path: Path, config: Mapping[str, Any], generation: Mapping[str, Any]
) -> tuple[tuple[int, int], ...]:
    """Return the pairs of layer and head in generation_config.json."""
    found = generation.get("alignment_heads") or []
    num_layers = _size(path, config, "n_text_layer", "decoder_layers")
    num_heads = _size(path, config, "n_text_head", "decoder_attention_heads")
    if not isinstance(found, list) or not all(_is_head(pair, num_layers, num_heads) for pair in found):
        raise BrokenModel(
            path, f"generation_config.json of model {display_name(path)!r} has no heads for alignment_heads"
        )
    return tuple((layer, head) for layer, head in found)


def _is_head(pair: object, num_layers: int, num_heads: int) -> bool:
    return (
        isinstance(pair, list)
        and len(pair) == 2
        and all(isinstance(number, int) for number in pair)
        and 0 <= pair[0] < num_layers
        and 0 <= pair[1] < num_heads
    )


def _size(path: Path, config: Mapping[str, Any], *names: str) -> int:
    """Return the number in the first of these fields."""
    found = next((config[name] for name in names if name in config), None)
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        raise BrokenModel(
            path, f"config.json of speech model {display_name(path)!r} has no size for {names[0]}: {found!r}"
        )
    return found
