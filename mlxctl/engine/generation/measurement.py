"""Costs of a loaded model, measured with one token. MLX thread only."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

import mlx.core as mx

from mlxctl.engine.backend import current_backend
from mlxctl.engine.decoding import caches as kv
from mlxctl.engine.generation.cache_trial import (
    ALL_ABILITIES,
    CacheAbilities,
    holds_only_keys_and_values,
    is_foreign,
    try_caches,
)
from mlxctl.engine.generation.padding_check import leaves_padding_out
from mlxctl.engine.host.failures import FOREIGN_ERRORS
from mlxctl.engine.loaded_weights import LoadedWeights
from mlxctl.engine.loading.loader import parameter_bytes
from mlxctl.engine.wire.reports import CacheKind
from mlxctl.ir import EmbeddingRecipe, KVFormat
from mlxctl.ir.kv_cache_size import KVFormats, KVPrecision, KVWindow
from mlxctl.ir.model_spec import NO_TEXT_OPTIONS, TextModelOptions
from mlxctl.ir.pass_memory import UNBOUNDED_PASSES
from mlxctl.library.prefill_memory import pass_memory
from mlxctl.prefix_cache.records import growing_arrays, grows, leaves


def measure(
    model: Any,
    started: float,
    *,
    embedding: EmbeddingRecipe | None = None,
    options: TextModelOptions = NO_TEXT_OPTIONS,
    config: Mapping[str, Any] = MappingProxyType({}),
) -> LoadedWeights:
    """Measure a decoder whose weights are read.

    Loading it began at `started` (monotonic seconds). With `embedding` it has no head. `config` is its
    configuration, from which the memory of prefill passes follows. Raises ValueError when
    its output has no finite number, or its caches cannot be quantized as `options` say.
    """
    model.eval()
    kv_format = options.kv_format
    if kv_format is not None:
        check_kv_format(model, kv_format)
    create_caches = partial(kv.new_caches, model, kv_format)
    caches = create_caches()
    token = mx.array([[0]], dtype=mx.uint32)
    output = (model if embedding is None else model.model)(token, cache=caches)
    mx.eval(output, kv.arrays(caches))
    has_numbers: Any = mx.isfinite(output).any().item()
    if not has_numbers:
        raise ValueError("its output has no finite number; its weights are damaged, download it again")
    vocabulary_size = int(output.shape[-1] if embedding is None else model.model.embed_tokens.weight.shape[0])
    abilities = ALL_ABILITIES
    if embedding is None and is_foreign(caches):
        abilities = _abilities(model, create_caches, caches, vocabulary_size)
    weights_bytes = parameter_bytes(model)
    memory = pass_memory(
        config,
        weights_bytes=weights_bytes,
        float_bytes=output.dtype.size,
        has_metal=current_backend().name != "cpu",
        is_fused=kv_format is None,
    )
    return LoadedWeights(
        model=model,
        vocabulary_size=vocabulary_size,
        weights_bytes=weights_bytes,
        pass_memory=memory or UNBOUNDED_PASSES,
        kv_bytes_per_token=_kv_bytes_per_token(caches, abilities),
        kv_windows=_windows(caches),
        state_bytes=_state_bytes(caches),
        layer_bytes_per_token=max(
            (bytes_per_token(each) for each in leaves(caches) if grows(each)), default=0
        ),
        cache_kind=_cache_kind(caches),
        can_batch=abilities.can_batch
        and all(grows(layer) or hasattr(layer, "merge") for layer in leaves(caches)),
        can_pad_prompts=embedding is not None
        or (abilities.can_pad and leaves_padding_out(model, create_caches)),
        can_reuse=abilities.can_reuse,
        cache_limits=abilities.limits(),
        load_seconds=time.monotonic() - started,
        create_caches=create_caches,
        kv_bits=_precision(kv_format),
        dimensions=None if embedding is None else embedding.num_dimensions(int(output.shape[-1])),
    )


def _abilities(
    model: Any, create_caches: Callable[[], kv.Caches], caches: kv.Caches, vocabulary_size: int
) -> CacheAbilities:
    abilities = try_caches(model, create_caches, vocabulary_size=vocabulary_size)
    if holds_only_keys_and_values(caches):
        return abilities
    in_batches = getattr(model, "selects_in_batches", True)
    return replace(
        abilities,
        can_batch=abilities.can_batch and in_batches,
        can_pad=abilities.can_pad and in_batches,
        can_reuse=abilities.can_reuse and getattr(model, "selects_in_prefixes", True),
    )


def _kv_bytes_per_token(caches: kv.Caches, abilities: CacheAbilities) -> int:
    whole = abilities.whole_bytes_per_token
    layers = [layer for layer in leaves(caches) if not whole or grows(layer) or hasattr(layer, "max_size")]
    return whole + sum(map(bytes_per_token, layers))


def bytes_per_token(layer: Any) -> int:
    """Return the bytes that one more token costs in a layer's cache.

    Recurrent layers cost none.
    """
    arrays = growing_arrays(layer) if hasattr(layer, "keys") else []
    return sum(array.nbytes for array in arrays) // arrays[0].shape[2] if arrays else 0


def _state_bytes(caches: kv.Caches) -> int:
    """Return the bytes of states that do not grow."""
    fixed = [layer for layer in leaves(caches) if not hasattr(layer, "keys")]
    return sum(array.nbytes for array in kv.arrays(fixed))


def _windows(caches: kv.Caches) -> tuple[KVWindow, ...]:
    """Return sliding windows with the bytes per token of their layers."""
    sizes: dict[int, int] = {}
    for layer in leaves(caches):
        window = getattr(layer, "max_size", None) or getattr(layer, "chunk_size", None)
        if not grows(layer) and isinstance(window, int):
            sizes[window] = sizes.get(window, 0) + bytes_per_token(layer)
    return tuple(sorted(sizes.items()))


def _cache_kind(caches: kv.Caches) -> CacheKind:
    names = {type(layer).__name__ for layer in leaves(caches)}
    if "ArraysCache" in names or any("Mamba" in name for name in names):
        return "hybrid"
    return "sliding" if any("Rotating" in name or "Chunked" in name for name in names) else "plain"


def _precision(formats: KVFormats | None) -> KVPrecision:
    if formats is None:
        return None
    return formats.bits if isinstance(formats, KVFormat) else "config"


def check_kv_format(model: Any, formats: KVFormats) -> None:
    """Prefill two short prompts and decode them together.

    mlx-lm's attention refuses some models (sinks, as in gpt-oss), and models may take their cache apart
    (latent attention). Raises ValueError with the setting to change.
    """
    if not any(hasattr(layer, "kv_format") for layer in leaves(kv.new_caches(model, formats))):
        raise ValueError(
            "no layer of the model that keeps all tokens has a format, so there is nothing to quantize: "
            "omit --kv-bits for it"
        )
    try:
        joined = kv.join([_read(model, formats), _read(model, formats)], [1, 1])
        model(mx.zeros((2, 1), dtype=mx.uint32), cache=joined)
        kv.evaluate(joined)
    except FOREIGN_ERRORS as error:
        what, fix = "the formats of kv_config.json", "change them there"
        if isinstance(formats, KVFormat):
            what, fix = (
                f"{formats.bits} bits in groups of {formats.group_size}",
                "try another --kv-group-size",
            )
        message = f"the model cannot use keys and values of {what} ({error})"
        raise ValueError(f"{message}: omit --kv-bits for it, or {fix}") from error


def _read(model: Any, formats: KVFormats) -> kv.Caches:
    caches = kv.new_caches(model, formats)
    model(mx.zeros((1, 2), dtype=mx.uint32), cache=caches)
    kv.evaluate(caches)
    return caches
