"""Whether a model can compute with quantized keys and values: tried before anybody relies on it.

MLX thread only.

mlx-lm's attention refuses some (sinks, as gpt-oss has), and what a model does with its cache is its own:
latent attention, for one, takes it apart.
"""

from typing import Any

import mlx.core as mx

from mlxctl.engine.failures import FOREIGN_ERRORS
from mlxctl.engine.generation import caches as kv
from mlxctl.ir import KVFormat
from mlxctl.prefix_cache.records import grows, leaves


def check_kv_format(model: Any, form: KVFormat) -> None:
    """Read two short prompts and decode their rows together.

    Raises ValueError that says what to do instead.
    """
    if not any(grows(layer) for layer in leaves(kv.new_caches(model, form))):
        raise ValueError(
            "none of its layers keeps every token, so there is nothing to quantize: leave --kv-bits out for it"
        )
    try:
        joined = kv.join([_read(model, form), _read(model, form)], [1, 1])
        model(mx.zeros((2, 1), dtype=mx.uint32), cache=joined)
        kv.evaluate(joined)
    except FOREIGN_ERRORS as error:
        # What a model does with a cache that it was not made for is not ours to enumerate more finely.
        message = (
            f"its keys and values cannot be kept in {form.bits} bits in groups of {form.group_size} ({error})"
        )
        raise ValueError(f"{message}: leave --kv-bits out for it, or try another --kv-group-size") from error


def _read(model: Any, form: KVFormat) -> kv.Caches:
    caches = kv.new_caches(model, form)
    model(mx.zeros((1, 2), dtype=mx.uint32), cache=caches)
    kv.evaluate(caches)
    return caches
