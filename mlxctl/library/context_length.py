"""Derives the context length from the fields that configurations use for it."""

from collections.abc import Mapping
from typing import Any

DEFAULT_CONTEXT_LENGTH = 8192

_LENGTH_KEYS = (
    "max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len", "max_seq_length",
    "seq_length", "n_ctx", "model_max_length",
)  # fmt: skip
# Tokenizer configurations write about 1e30 for "unknown".
_LARGEST_BELIEVABLE = 1 << 27
# For these kinds max_position_embeddings already includes the scaling.
_ALREADY_SCALED = frozenset({"default", "llama3", "longrope", "su", "mrope", "proportional"})


def find_context_length(config: Mapping[str, Any], tokenizer_config: Mapping[str, Any]) -> int:
    """Return the context length in tokens.

    The text part of a composite configuration comes first. The smallest length found counts; RoPE scaling of
    the linear, dynamic and YaRN kinds multiplies it (YaRN from the original length); the tokenizer's limit
    caps a length that was not scaled. Without any length it is DEFAULT_CONTEXT_LENGTH: recurrent models have
    no limit of their own, but memory is limited.
    """
    for source in (config.get("text_config"), config.get("llm_config"), config):
        length = _length_in(source) if isinstance(source, Mapping) else None
        if length is not None:
            assert isinstance(source, Mapping)
            scaled = _scale(length, source)
            limit = _whole(tokenizer_config.get("model_max_length"))
            return min(scaled, limit) if limit is not None and scaled == length else scaled
    return _whole(tokenizer_config.get("model_max_length")) or DEFAULT_CONTEXT_LENGTH


def _length_in(config: Mapping[str, Any]) -> int | None:
    return min(
        (length for key in _LENGTH_KEYS if (length := _whole(config.get(key))) is not None), default=None
    )


def _scale(length: int, config: Mapping[str, Any]) -> int:
    scaling = config.get("rope_scaling") or config.get("rope_parameters")
    if not isinstance(scaling, Mapping):
        return length
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    factor = scaling.get("factor")
    if (
        kind in _ALREADY_SCALED
        or isinstance(factor, bool)
        or not isinstance(factor, int | float)
        or not 1 <= factor <= 1024
    ):
        return length
    if str(config.get("model_type", "")).startswith("gemma3"):
        return length
    original = _whole(scaling.get("original_max_position_embeddings")) if kind == "yarn" else None
    return max(length, int(original * factor)) if original is not None else int(length * factor)


def _whole(value: Any) -> int | None:
    """Return a plausible number of tokens; some configurations write a float."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value <= _LARGEST_BELIEVABLE:
        return None
    return int(value)
