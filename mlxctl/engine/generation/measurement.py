"""Costs of a loaded model, measured with one token. MLX thread only."""

import time
from typing import Any

import mlx.core as mx

from mlxctl.engine.generation import caches as kv
from mlxctl.engine.generation.kv_format_check import check_kv_format
from mlxctl.engine.loaded_weights import LoadedWeights
from mlxctl.engine.loading.loader import parameter_bytes
from mlxctl.engine.wire.messages import CacheKind
from mlxctl.ir import EmbeddingRecipe, KVFormat
from mlxctl.ir.kv_cache_size import KVWindow
from mlxctl.prefix_cache.records import growing_arrays, grows, leaves


def measure(
    model: Any, started: float, *, embedding: EmbeddingRecipe | None = None, kv_format: KVFormat | None = None
) -> LoadedWeights:
    """Measure a decoder whose weights are read.

    Loading it began at `started` (monotonic seconds). With `embedding` it has no head. Raises ValueError when
    its caches cannot be quantized in `kv_format`.
    """
    model.eval()
    if kv_format is not None:
        check_kv_format(model, kv_format)
    caches = kv.new_caches(model, kv_format)
    token = mx.array([[0]], dtype=mx.uint32)
    output = (model if embedding is None else model.model)(token, cache=caches)
    mx.eval(output, kv.arrays(caches))
    return LoadedWeights(
        model=model,
        vocabulary_size=int(
            output.shape[-1] if embedding is None else model.model.embed_tokens.weight.shape[0]
        ),
        weights_bytes=parameter_bytes(model),
        kv_bytes_per_token=sum(map(_bytes_per_token, leaves(caches))),
        kv_windows=_windows(caches),
        cache_kind=_cache_kind(caches),
        can_batch=all(grows(layer) or hasattr(layer, "merge") for layer in leaves(caches)),
        load_seconds=time.monotonic() - started,
        kv_format=kv_format,
        dimensions=None if embedding is None else embedding.num_dimensions(int(output.shape[-1])),
    )


def _bytes_per_token(layer: Any) -> int:
    """Bytes that one more token costs in this layer.

    Recurrent layers cost none.
    """
    arrays = growing_arrays(layer) if hasattr(layer, "keys") else []
    return sum(array.nbytes for array in arrays) // arrays[0].shape[2] if arrays else 0


def _windows(caches: kv.Caches) -> tuple[KVWindow, ...]:
    """Return sliding windows with the bytes per token of their layers."""
    sizes: dict[int, int] = {}
    for layer in leaves(caches):
        window = getattr(layer, "max_size", None) or getattr(layer, "chunk_size", None)
        if not grows(layer) and isinstance(window, int):
            sizes[window] = sizes.get(window, 0) + _bytes_per_token(layer)
    return tuple(sorted(sizes.items()))


def _cache_kind(caches: kv.Caches) -> CacheKind:
    names = {type(layer).__name__ for layer in leaves(caches)}
    if "ArraysCache" in names or any("Mamba" in name for name in names):
        return "hybrid"
    return "sliding" if any("Rotating" in name or "Chunked" in name for name in names) else "plain"
