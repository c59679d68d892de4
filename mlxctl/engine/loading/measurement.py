"""What a loaded model costs, found out by running a token through it. MLX thread only."""

import time
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten

from mlxctl.engine.embedding.encoders import encoded, open_encoder
from mlxctl.engine.generation import caches as kv
from mlxctl.engine.loaded_weights import LoadedWeights
from mlxctl.engine.loading.kv_format_check import check_kv_format
from mlxctl.engine.wire.messages import CacheKind
from mlxctl.ir import EncoderKind, KVFormat
from mlxctl.prefix_cache.records import growing_arrays, grows, leaves


def measure(model: Any, started: float, *, is_headless: bool, kv_format: KVFormat | None) -> LoadedWeights:
    """Return what is to be known of a model whose weights are there; loading it has begun at `started`.

    Raises ValueError when its caches cannot be quantized in `kv_format`.
    """
    model.eval()
    if kv_format is not None:
        check_kv_format(model, kv_format)
    caches = kv.new_caches(model, kv_format)
    token = mx.array([[0]], dtype=mx.uint32)
    output = model.model(token, cache=caches) if is_headless else model(token, cache=caches)
    mx.eval(output, kv.arrays(caches))
    return LoadedWeights(
        model=model,
        vocabulary_size=int(model.model.embed_tokens.weight.shape[0] if is_headless else output.shape[-1]),
        weights_bytes=parameter_bytes(model),
        kv_bytes_per_token=sum(map(_bytes_per_token, leaves(caches))),
        cache_kind=_cache_kind(caches),
        can_batch=all(grows(layer) or hasattr(layer, "merge") for layer in leaves(caches)),
        load_seconds=time.monotonic() - started,
        kv_format=kv_format,
        width=int(output.shape[-1]) if is_headless else None,
    )


def measure_encoder(model: Any, kind: EncoderKind, started: float) -> LoadedWeights:
    """Return the same of an encoder, which keeps nothing."""
    model.eval()
    encoder = open_encoder(model, kind)
    states = encoded(encoder, mx.array([[0]], dtype=mx.uint32))
    mx.eval(states)
    return LoadedWeights(
        model=model,
        vocabulary_size=encoder.vocabulary_size,
        weights_bytes=parameter_bytes(model),
        kv_bytes_per_token=0,
        cache_kind="plain",
        can_batch=True,
        load_seconds=time.monotonic() - started,
        width=int(states.shape[-1]),
    )


def measure_transcriber(model: Any, started: float) -> LoadedWeights:
    """Return the same of a model that writes down speech, whose caches are those of one window at a time."""
    heard = mx.zeros((1, model.dims.n_audio_ctx, model.dims.n_audio_state), dtype=model.dtype)
    logits, caches, _ = model.decoder(mx.array([[0]]), heard)
    mx.eval(logits, caches)
    return LoadedWeights(
        model=model,
        vocabulary_size=int(logits.shape[-1]),
        weights_bytes=parameter_bytes(model),
        kv_bytes_per_token=0,
        cache_kind="plain",
        can_batch=False,
        load_seconds=time.monotonic() - started,
    )


def parameter_bytes(model: Any) -> int:
    """Return the bytes of a model's weights."""
    return sum(array.nbytes for _, array in tree_flatten(model.parameters()))


def _bytes_per_token(layer: Any) -> int:
    """Bytes that one more token costs in this layer; recurrent layers cost none."""
    arrays = growing_arrays(layer) if hasattr(layer, "keys") else []
    return sum(array.nbytes for array in arrays) // arrays[0].shape[2] if arrays else 0


def _cache_kind(caches: kv.Caches) -> CacheKind:
    names = {type(layer).__name__ for layer in leaves(caches)}
    if "ArraysCache" in names or any("Mamba" in name for name in names):
        return "hybrid"
    return "sliding" if any("Rotating" in name or "Chunked" in name for name in names) else "plain"
