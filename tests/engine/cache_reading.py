"""Prefills tokens into the caches of a model, without an engine."""

from typing import Any

import mlx.core as mx

from mlxctl.engine.decoding import caches as kv
from mlxctl.ir.kv_cache_size import KVFormats
from mlxctl.prefix_cache.records import growing_arrays


def read(model: Any, tokens: list[int], form: KVFormats | None = None) -> kv.Caches:
    """Return the caches of one sequence that hold these tokens."""
    caches = kv.new_caches(model, form)
    if tokens:
        model(mx.array([tokens]), cache=caches)
        kv.evaluate(caches)
    return caches


def next_logits(model: Any, caches: kv.Caches, tokens: list[int]) -> mx.array:
    """Run the next token of each row.

    Returns logits (rows, vocabulary).
    """
    logits: mx.array = model(mx.array(tokens)[:, None], cache=caches)[:, -1]
    kv.evaluate(caches)
    return logits


def keys_of(number: int, num_tokens: int) -> mx.array:
    """Keys that encode their row and token.

    Every group of them is the same number, which quantizing keeps.
    """
    tokens = mx.arange(num_tokens) + 1000.0 * number
    return mx.broadcast_to(tokens[None, None, :, None], (1, 2, num_tokens, 64))


def held(layer: Any) -> list[float]:
    """Return the token numbers in a row, checked against its values."""
    arrays = [array[:, :, : layer.offset] for array in growing_arrays(layer)]
    keys, values = (
        arrays
        if len(arrays) == 2
        else (mx.dequantize(*packed, group_size=64, bits=8) for packed in (arrays[:3], arrays[3:]))
    )
    assert mx.array_equal(keys, -values)
    numbers: list[float] = keys[0, 0, :, 0].tolist()
    return numbers
