"""Checks that a model can compute with quantized keys and values.

MLX thread only. mlx-lm's attention refuses some models (sinks, as in gpt-oss), and models may take their
cache apart (latent attention).
"""

from typing import Any

import mlx.core as mx

from mlxctl.engine.failures import FOREIGN_ERRORS
from mlxctl.engine.generation import caches as kv
from mlxctl.ir import KVFormat
from mlxctl.prefix_cache.records import grows, leaves


def check_kv_format(model: Any, form: KVFormat) -> None:
    """Prefill two short prompts and decode them together.

    Raises ValueError with the setting to change.
    """
    if not any(grows(layer) for layer in leaves(kv.new_caches(model, form))):
        raise ValueError(
            "no layer of the model keeps all tokens, so there is nothing to quantize: omit --kv-bits for it"
        )
    try:
        joined = kv.join([_read(model, form), _read(model, form)], [1, 1])
        model(mx.zeros((2, 1), dtype=mx.uint32), cache=joined)
        kv.evaluate(joined)
    except FOREIGN_ERRORS as error:
        what = f"{form.bits} bits in groups of {form.group_size}"
        message = f"the model cannot use keys and values of {what} ({error})"
        raise ValueError(f"{message}: omit --kv-bits for it, or try another --kv-group-size") from error


def _read(model: Any, form: KVFormat) -> kv.Caches:
    caches = kv.new_caches(model, form)
    model(mx.zeros((1, 2), dtype=mx.uint32), cache=caches)
    kv.evaluate(caches)
    return caches
