"""Estimates prefill memory beside weights and cache; checked against small models.

A chunk of the prompt goes through one layer at a time. In memory at once are about eight copies of its hidden
states, in 32 bits where they are normalized, four of the layer's inner states, and one layer's keys and
values while its cache grows. Without a fused attention kernel all scores are in memory with their mask: a
number for every head, every token of the chunk and every token that it attends to. Attention sinks are
concatenated to them, which copies them twice more. Mamba layers compute one state after the other, in 32
bits, and keep all of a chunk. Of the logits only one row is computed.

Measured with MLX 0.32 on its CPU backend (x86, two cores): small models of qwen3, llama3, mistral, gemma3
(window), lfm2 and qwen3_next (recurrent layers, experts) and gpt_oss (window, sinks, experts) in 32 bits,
qwen3 in 16 and packed in 4 bits; chunks of 64 to 2,048 tokens, prompts of 128 to 4,096. For a given chunk the
estimates were 0.9 to 1.3 times the peaks.

The engine bounds its passes by the same arithmetic (`PassMemory`), so that a prompt never needs much more
than weights and cache, and the need is known. Through the server, with its own passes and without the prefix
cache, weights, cache and prefill together were 0.92 to 1.25 times the peaks of eight models (those above but
mistral, and mamba, and one of 5 million parameters) after one and two prompts of 500 and 2,000 tokens, on two
idle cores; with 6,000 tokens, and a bound of at least 4 MiB, 1.00 to 1.10. Nothing was measured on Metal.
"""

from collections.abc import Mapping
from typing import Any

from mlxctl.ir.pass_memory import PassMemory
from mlxctl.library.encoders import is_encoder
from mlxctl.library.kv_cache import scan_state_size
from mlxctl.library.layer_plan import Kept, plan_layers
from mlxctl.library.text_config import text_part, whole_number

# Head dimensions of Metal's fused prefill kernel (MLX, scaled_dot_product_attention.cpp).
_FUSED_HEAD_DIMENSIONS = (64, 80, 128)
_HIDDEN_COPIES, _INNER_COPIES = 8, 4
_HIDDEN_BYTES, _LOGIT_BYTES, _STATE_BYTES, _MASK_BYTES = 4, 4, 4, 1
_WITH_SINKS = frozenset({"gpt_oss"})
_SINK_COPIES = 3

# Bound of a pass: as much as the weights within a range, and a share of larger weights, so that it is a small
# part of what the model needs anyway. Measured on a CPU (2 cores, 5M parameters, seconds of CPU): 2,000
# tokens took 1.6 in passes of 64, 1.3 of 128, 1.2 of 256, 1.4 of 512, 2.0 of 2,048; 6,000 took 9.7, 8.4, 8.4,
# 8.5, 10.1. The bound allows 280 and 130 there. Not measured on Metal: a gigabyte holds the states of the
# default chunk of models up to 8,000 wide.
_MAX_SHARE = 1 / 8
_MAX_BYTES_CPU, _MAX_BYTES_METAL = (3 << 20, 16 << 20), (1 << 30, 1 << 30)
_NUM_PLACES = 32


def estimate_prompt_bytes(
    config: Mapping[str, Any],
    *,
    weights_bytes: int,
    chunk_max_tokens: int,
    context_tokens: int,
    float_bytes: int,
    has_metal: bool,
    is_fused: bool = True,
    room_bytes: int | None = None,
) -> int | None:
    """Return the estimated peak of prefilling `context_tokens`, in bytes.

    Passes have the largest size that the engine allows with `room_bytes` beside the weights. None when the
    configuration lacks a size.
    """
    memory = pass_memory(
        config, weights_bytes=weights_bytes, float_bytes=float_bytes, has_metal=has_metal, is_fused=is_fused
    )
    if memory is None:
        return None
    if room_bytes is not None:
        memory = memory.within(room_bytes)
    peak = 0
    # Passes shrink as the context grows: the peak may be at any of them.
    for place in range(_NUM_PLACES):
        start = context_tokens * place // _NUM_PLACES
        num_tokens = memory.largest_pass(start, maximum=min(chunk_max_tokens, context_tokens - start))
        end = start + num_tokens
        peak = max(peak, memory.num_bytes(num_tokens, end=end) + _grown_bytes(config, end, float_bytes))
    return peak + _logits_bytes(config)


def pass_memory(
    config: Mapping[str, Any],
    *,
    weights_bytes: int,
    float_bytes: int,
    has_metal: bool,
    is_fused: bool = True,
) -> PassMemory | None:
    """Return the memory of a prefill pass and its bound.

    None when the configuration lacks a size. Attention is never fused off Metal; `is_fused` is whether it may
    be there.
    """
    part = text_part(config)
    hidden, heads = whole_number(part, "hidden_size", "n_embd", "d_model"), _num_heads(part)
    if not hidden or not heads or not whole_number(part, "vocab_size"):
        return None
    inner = _inner_width(part) or 4 * hidden
    model_type = _model_type(config, part)
    states = _HIDDEN_COPIES * hidden * _HIDDEN_BYTES + _INNER_COPIES * inner * float_bytes
    scanned = (scan_state_size(model_type, part) or 0) * _STATE_BYTES
    fuses = (
        is_fused
        and has_metal
        and not part.get("kv_lora_rank")
        and _head_dimension(part) in _FUSED_HEAD_DIMENSIONS
    )
    copies = _SINK_COPIES if model_type in _WITH_SINKS else 1
    layers = _layers(config)
    attends = layers is None or set(layers) != {"state"}
    least, most = _MAX_BYTES_METAL if has_metal else _MAX_BYTES_CPU
    return PassMemory(
        bytes_per_token=states + scanned,
        bytes_per_score=copies * (heads * float_bytes + _MASK_BYTES) if attends and not fuses else 0,
        window=None if layers is None or "all" in layers else whole_number(part, "sliding_window"),
        max_bytes=max(least, min(weights_bytes, most), int(weights_bytes * _MAX_SHARE)),
    )


def estimate_prefill_bytes(
    config: Mapping[str, Any],
    *,
    chunk_tokens: int,
    context_tokens: int,
    float_bytes: int,
    has_metal: bool,
    is_fused: bool = True,
) -> int | None:
    """Return the estimate for a chunk at the end of `context_tokens`.

    None when the configuration lacks a size.
    """
    memory = pass_memory(
        config, weights_bytes=0, float_bytes=float_bytes, has_metal=has_metal, is_fused=is_fused
    )
    if memory is None:
        return None
    chunk = min(chunk_tokens, context_tokens)
    grown = _grown_bytes(config, context_tokens, float_bytes)
    return memory.num_bytes(chunk, end=context_tokens) + grown + _logits_bytes(config)


def _grown_bytes(config: Mapping[str, Any], context_tokens: int, float_bytes: int) -> int:
    """Return the size of one layer's keys and values.

    They are copied while its cache grows.
    """
    part = text_part(config)
    if is_encoder(config) or set(_layers(config) or ("all",)) == {"state"}:
        return 0
    return _cache_width(part) * context_tokens * float_bytes


def _logits_bytes(config: Mapping[str, Any]) -> int:
    return (whole_number(text_part(config), "vocab_size") or 0) * _LOGIT_BYTES


def _head_dimension(part: Mapping[str, Any]) -> int:
    hidden, heads = whole_number(part, "hidden_size", "n_embd", "d_model"), _num_heads(part)
    return whole_number(part, "head_dim") or (hidden or 0) // (heads or 1)


def _cache_width(part: Mapping[str, Any]) -> int:
    """Return how many numbers a layer caches per token."""
    latent = whole_number(part, "kv_lora_rank")
    if latent:
        return latent + (whole_number(part, "qk_rope_head_dim") or 0)
    heads = whole_number(part, "num_key_value_heads", "num_kv_heads") or _num_heads(part) or 0
    return 2 * heads * _head_dimension(part)


def _layers(config: Mapping[str, Any]) -> tuple[Kept, ...] | None:
    part = text_part(config)
    return plan_layers(_model_type(config, part), part)


def _model_type(config: Mapping[str, Any], part: Mapping[str, Any]) -> str:
    return str(part.get("model_type") or config.get("model_type") or "")


def _num_heads(part: Mapping[str, Any]) -> int | None:
    return whole_number(part, "num_attention_heads", "n_head", "n_heads")


def _inner_width(part: Mapping[str, Any]) -> int:
    """Return the widest inner state of a layer per token.

    All active experts count.
    """
    dense = (
        whole_number(
            part, "intermediate_size", "n_inner", "ffn_hidden_size", "block_ff_dim", "intermediate_size_mlp"
        )
        or 0
    )
    # Without a field of their own, experts have the width `intermediate_size`.
    expert, chosen = (
        whole_number(part, "moe_intermediate_size"),
        whole_number(part, "num_experts_per_tok", "num_experts_per_token"),
    )
    return max(dense, (expert or dense) * (chosen or 1))
