"""Initial weights with an induction head, which copies.

Gradient descent learns to copy late in so small a model, so the two-layer circuit known as an induction head
is set before training starts. The residual stream is divided: feature 0 is the same for every token, the next
ones hold the token itself, and three blocks after them hold the tokens 1, 2 and 3 positions before.

* Layer 0: one head per look-back. Queries and keys are constant; the query is turned by RoPE so that exactly
  the token that far back is attended to. Values carry a code of the token into the block for that distance.
* Layer 1: heads that look for an earlier place whose predecessors are the current tokens (one, two or three
  of them, compared in the slowly turning RoPE pairs, which distance hardly changes) and write the token found
  there over the current one.

Everything stays trainable; all other weights start at random.
"""

import math
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten

TOKEN_FEATURES = slice(1, 64)
NUM_LOOK_BACKS = 3
_CODE_SIZE = 32
_SHARPNESS = 2.6
_FAST_PAIRS = 4
_FIRST_SLOW_PAIR = 6
_COPY_STRENGTH = 2.0
_LOGIT_SCALE = 2.5
_NOISE = 0.04  # standard deviation of the other weights; one token's features have length 1


def initial_weights(model: Any, *, seed: int) -> dict[str, mx.array]:
    """Draw all weights of a Qwen3, with the induction head set.

    `model` needs a hidden size of at least 160, heads of 32 features and two key-value heads.
    """
    args = model.args
    keys = iter(mx.random.split(mx.random.key(seed), 1_000))
    weights = {}
    for name, parameter in tree_flatten(model.parameters()):
        if parameter.ndim == 1:
            weights[name] = mx.full(parameter.shape, _LOGIT_SCALE if name == "model.norm.weight" else 1.0)
            continue
        shrink = _NOISE if name.endswith(("o_proj.weight", "down_proj.weight")) else 1.0
        weights[name] = mx.random.normal(parameter.shape, key=next(keys)) * (
            shrink / math.sqrt(parameter.shape[-1])
        )
    _embed(weights, args, next(keys))
    code = _orthogonal(_CODE_SIZE, TOKEN_FEATURES.stop - TOKEN_FEATURES.start, next(keys))
    _look_back(weights, args, code)
    _match_and_copy(weights, args, code, keys)
    return weights


def _embed(weights: dict[str, mx.array], args: Any, key: mx.array) -> None:
    """Set random token features, and the constant feature for all tokens."""
    num_features = TOKEN_FEATURES.stop - TOKEN_FEATURES.start
    table = 0.005 * mx.random.normal((args.vocab_size, args.hidden_size), key=key)
    table[:, TOKEN_FEATURES] = mx.random.normal((args.vocab_size, num_features), key=key) / math.sqrt(
        num_features
    )
    table[:, 0] = 0.2
    weights["model.embed_tokens.weight"] = table


def _look_back(weights: dict[str, mx.array], args: Any, code: mx.array) -> None:
    prefix, size, width = "model.layers.0.self_attn", args.head_dim, args.hidden_size
    frequencies = [args.rope_theta ** (-2 * pair / size) for pair in range(_FAST_PAIRS)]
    key = mx.zeros((size, width))
    key[:_FAST_PAIRS, 0] = 1.0
    weights[f"{prefix}.k_proj.weight"][:size] = key
    value = mx.zeros((_CODE_SIZE, width))
    value[:, TOKEN_FEATURES] = code
    weights[f"{prefix}.v_proj.weight"][:size] = value
    for head in range(NUM_LOOK_BACKS):
        query = mx.zeros((size, width))
        for pair, frequency in enumerate(frequencies):
            query[pair, 0] = math.cos((head + 1) * frequency)
            query[pair + size // 2, 0] = -math.sin((head + 1) * frequency)
        weights[f"{prefix}.q_proj.weight"][head * size : (head + 1) * size] = query
        output = mx.zeros((width, size))
        output[_block(head)] = 0.18 * mx.eye(_CODE_SIZE)
        weights[f"{prefix}.o_proj.weight"][:, head * size : (head + 1) * size] = output
    _sharpen(weights, prefix)


def _match_and_copy(weights: dict[str, mx.array], args: Any, code: mx.array, keys: Any) -> None:
    prefix, size, width = "model.layers.1.self_attn", args.head_dim, args.hidden_size
    group = args.num_attention_heads // args.num_key_value_heads
    slow = mx.array([i for i in range(size) if i % (size // 2) >= _FIRST_SLOW_PAIR])
    mixers = [mx.random.normal((len(slow), _CODE_SIZE), key=next(keys)) for _ in range(NUM_LOOK_BACKS)]
    reader = _orthogonal(size, TOKEN_FEATURES.stop - TOKEN_FEATURES.start, next(keys))
    for key_head, num_compared in ((0, 1), (1, 3)):
        key = mx.zeros((len(slow), width))
        for distance in range(num_compared):
            key[:, _block(distance)] = mixers[distance]
        _put(weights, f"{prefix}.k_proj.weight", key_head * size, slow, key, size)
        value = mx.zeros((size, width))
        value[:, TOKEN_FEATURES] = reader
        weights[f"{prefix}.v_proj.weight"][key_head * size : (key_head + 1) * size] = value
    for head, num_compared in ((0, 1), (group, 3), (group + 1, 2)):
        query = mx.zeros((len(slow), width))
        query[:, TOKEN_FEATURES] = 0.18 * mixers[0] @ code  # as much as the look-back codes were scaled
        for distance in range(1, num_compared):
            query[:, _block(distance - 1)] = mixers[distance]
        _put(weights, f"{prefix}.q_proj.weight", head * size, slow, query, size)
        output = mx.zeros((width, size))
        output[TOKEN_FEATURES] = _COPY_STRENGTH * 0.18 * reader.T
        weights[f"{prefix}.o_proj.weight"][:, head * size : (head + 1) * size] = output
    _sharpen(weights, prefix)


def _put(
    weights: dict[str, mx.array], name: str, start: int, rows: mx.array, block: mx.array, size: int
) -> None:
    full = mx.zeros((size, block.shape[1]))
    full[rows] = block
    weights[name][start : start + size] = full


def _sharpen(weights: dict[str, mx.array], prefix: str) -> None:
    for norm in ("q_norm", "k_norm"):
        weights[f"{prefix}.{norm}.weight"] = mx.full(weights[f"{prefix}.{norm}.weight"].shape, _SHARPNESS)


def _block(look_back: int) -> slice:
    start = TOKEN_FEATURES.stop + look_back * _CODE_SIZE
    return slice(start, start + _CODE_SIZE)


def _orthogonal(num_rows: int, num_columns: int, key: mx.array) -> mx.array:
    """Return a matrix of random orthonormal rows."""
    square = mx.random.normal((num_columns, num_columns), key=key)
    factor, _ = mx.linalg.qr(square, stream=mx.cpu)
    return factor[:num_rows]
