"""Prefills tokens into the caches of a model, without an engine."""

from typing import Any

import mlx.core as mx

from mlxctl.engine.generation import caches as kv
from mlxctl.ir.kv_cache_size import KVFormats


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
