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

Through the server, with chunks of at most 128 tokens and without the prefix cache, weights, cache and prefill
together were 0.87 to 1.25 times the peaks of 12 models at 500 to 3,000 tokens: those above, mamba, the demo
model, one of 5 million parameters, and two with experts that take images.

The engine sizes chunks by their duration, which is in no configuration. With such chunks, on two idle cores,
the estimates of eight models were 0.94 to 1.13 times the peaks at 500 tokens, but 0.69 to 2.99 at 2,000 and
0.17 to 2.19 at 6,000: the duration of the same chunk varies by a factor of two, and the weights of these
models are only 1 to 20 MB. Nothing was measured on Metal: there the largest chunk of the settings is assumed,
so the estimate is an upper bound.
"""

from collections.abc import Mapping
from typing import Any

from mlxctl.models.encoders import is_encoder
from mlxctl.models.kv_cache import scan_state_size
from mlxctl.models.layer_plan import Kept, plan_layers
from mlxctl.models.text_config import text_part, whole_number

# Head dimensions of Metal's fused prefill kernel (MLX, scaled_dot_product_attention.cpp).
_FUSED_HEAD_DIMENSIONS = (64, 80, 128)
_HIDDEN_COPIES, _INNER_COPIES = 8, 4
_HIDDEN_BYTES, _LOGIT_BYTES, _STATE_BYTES, _MASK_BYTES = 4, 4, 4, 1
_WITH_SINKS = frozenset({"gpt_oss"})
_SINK_COPIES, _SINK_SLOWNESS = 3, 1.5

# How the engine's PrefillPacer sizes chunks of a new model: this many tokens first, at most twice as many
# each time, and at most this share of `prefill_slice_seconds`.
FIRST_CHUNK_TOKENS = 128
SLICE_SHARE = 1 / 4
DEFAULT_SLICE_SECONDS = 0.5
_LEAST_CHUNK_TOKENS = 4
# Seconds on the CPU backend, measured: per score of one head, and per multiplication.
_CPU_SECONDS_PER_SCORE = 5e-9
_CPU_SECONDS_PER_PRODUCT = 1 / 20e9
_NUM_PLACES = 32


def estimate_prompt_bytes(
    config: Mapping[str, Any],
    *,
    chunk_max_tokens: int,
    context_tokens: int,
    float_bytes: int,
    has_metal: bool,
    is_fused: bool = True,
    num_parameters: int = 0,
    slice_seconds: float = DEFAULT_SLICE_SECONDS,
) -> int | None:
    """Return the estimated peak of prefilling `context_tokens`, in bytes.

    Chunks are sized as by the engine. `num_parameters` are the active ones of a token. None when the
    configuration lacks a size.
    """
    peak = 0
    # Chunks grow first and shrink as the context grows: the peak may be at any chunk.
    for number in range(1, _NUM_PLACES + 1):
        end = -(-context_tokens * number // _NUM_PLACES)
        chunk = min(largest_chunk_tokens(end), chunk_max_tokens)
        if not has_metal:
            chunk = min(chunk, _cpu_chunk_tokens(config, end, num_parameters, SLICE_SHARE * slice_seconds))
        moment = estimate_prefill_bytes(
            config,
            chunk_tokens=chunk,
            context_tokens=end,
            float_bytes=float_bytes,
            has_metal=has_metal,
            is_fused=is_fused,
        )
        if moment is None:
            return None
        peak = max(peak, moment)
    return peak


def largest_chunk_tokens(end: int) -> int:
    """Return the size of the largest chunk that ends at `end` tokens.

    Each chunk is at most twice as long as the one before.
    """
    start, chunk, most = 0, FIRST_CHUNK_TOKENS, 0
    while start < end:
        most = max(most, min(chunk, end - start))
        start, chunk = start + chunk, 2 * chunk
    return most


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

    None when the configuration lacks a size. Attention is never fused off Metal; `is_fused` is whether it may
    be there.
    """
    part = text_part(config)
    hidden, vocabulary = (
        whole_number(part, "hidden_size", "n_embd", "d_model"),
        whole_number(part, "vocab_size"),
    )
    heads = _num_heads(part)
    if not hidden or not vocabulary or not heads:
        return None
    inner = _inner_width(part) or 4 * hidden
    chunk = min(chunk_tokens, context_tokens)
    states = chunk * (_HIDDEN_COPIES * hidden * _HIDDEN_BYTES + _INNER_COPIES * inner * float_bytes)
    dimension = whole_number(part, "head_dim") or hidden // heads
    grows = not is_encoder(config) and set(_layers(config) or ("all",)) != {"state"}
    grown = _cache_width(part, heads, dimension) * context_tokens * float_bytes if grows else 0
    scanned = chunk * (scan_state_size(_model_type(config, part), part) or 0) * _STATE_BYTES
    fuses = is_fused and has_metal and not part.get("kv_lora_rank") and dimension in _FUSED_HEAD_DIMENSIONS
    copies = _SINK_COPIES if _model_type(config, part) in _WITH_SINKS else 1
    width = _attended(config, chunk, context_tokens)
    scores = 0 if fuses else chunk * width * copies * (heads * float_bytes + _MASK_BYTES)
    return states + scores + grown + scanned + vocabulary * _LOGIT_BYTES


def _cpu_chunk_tokens(
    config: Mapping[str, Any], context_tokens: int, num_parameters: int, seconds: float
) -> int:
    """Return the size of a CPU chunk at a prompt's end.

    In tokens.
    """
    part = text_part(config)
    layers = _layers(config) or ("all",) * (
        whole_number(part, "num_hidden_layers", "n_layer", "num_layers", "n_layers") or 1
    )
    window = whole_number(part, "sliding_window") or context_tokens
    num_scores = layers.count("all") * context_tokens + layers.count("window") * min(window, context_tokens)
    slowness = _SINK_SLOWNESS if _model_type(config, part) in _WITH_SINKS else 1
    a_token = (
        num_scores * slowness * (_num_heads(part) or 1) * _CPU_SECONDS_PER_SCORE
        + num_parameters * _CPU_SECONDS_PER_PRODUCT
    )
    allowed = int(seconds / a_token) if a_token else context_tokens
    # The first chunk has a fixed size, the second another one, so that both costs are measured.
    second = 2 * FIRST_CHUNK_TOKENS
    if context_tokens <= FIRST_CHUNK_TOKENS:
        least = FIRST_CHUNK_TOKENS
    elif context_tokens <= FIRST_CHUNK_TOKENS + second and second * a_token * SLICE_SHARE <= seconds:
        least = second
    else:
        least = _LEAST_CHUNK_TOKENS
    return max(allowed, least)


def _attended(config: Mapping[str, Any], chunk: int, context_tokens: int) -> int:
    """Return the number of tokens that the widest-attending layer attends to."""
    layers = _layers(config)
    window = whole_number(text_part(config), "sliding_window")
    if layers is None or "all" in layers or not window:
        return context_tokens if layers is None or set(layers) != {"state"} else 0
    return min(context_tokens, window + chunk)


def _cache_width(part: Mapping[str, Any], heads: int, dimension: int) -> int:
    """Return how many numbers a layer caches per token."""
    latent = whole_number(part, "kv_lora_rank")
    if latent:
        return latent + (whole_number(part, "qk_rope_head_dim") or 0)
    return 2 * (whole_number(part, "num_key_value_heads", "num_kv_heads") or heads) * dimension


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
