"""Reads LoRA adapter directories of mlx-lm and PEFT.

Reads no weights but for their digest. Both have an `adapter_config.json`. mlx-lm names the weights
`adapters.safetensors`, with `PATH.lora_a` (in, rank) and `PATH.lora_b` (rank, out), and `PATH.m` (out,) of
DoRA. PEFT names them `adapter_model.safetensors`, with `base_model.model.PATH.lora_A.weight` (rank, in),
`lora_B.weight` (out, rank) and `lora_magnitude_vector.weight` (out,) of DoRA; those of embeddings are
`lora_embedding_A` and `lora_embedding_B`.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlxctl.ir.lora import LoraFormat, LoraModule, LoraSpec
from mlxctl.library.fingerprint import fingerprint
from mlxctl.library.lora_config import LoraConfig, broken, read_json, read_lora_config
from mlxctl.library.safetensors_headers import Tensor, read_header

_MAX_MODULES = 100_000
_FILES: dict[LoraFormat, str] = {"mlx-lm": "adapters.safetensors", "peft": "adapter_model.safetensors"}
_SUFFIXES: dict[LoraFormat, dict[str, str]] = {
    "mlx-lm": {".lora_a": ".lora_b"},
    "peft": {".lora_A.weight": ".lora_B.weight", ".lora_embedding_A": ".lora_embedding_B"},
}
_MAGNITUDES: dict[LoraFormat, tuple[str, ...]] = {
    "mlx-lm": (".m",),
    # PEFT before 0.12 wrote the second name.
    "peft": (".lora_magnitude_vector.weight", ".lora_magnitude_vector"),
}
_PEFT_PREFIX = "base_model.model."
_FLOATS = ("F16", "BF16", "F32")


def read_lora(directory: Path, *, name: str, base: Path) -> LoraSpec:
    """Read and check an adapter for the model directory `base`. Blocks.

    Raises BrokenModel with the file and the field in error.
    """
    json = read_json(directory)
    lora_format = _form(directory)
    _check_base(directory, json, base)
    config = read_lora_config(directory, json, lora_format)
    file = directory / _FILES[lora_format]
    modules = _modules(directory, lora_format, read_header(file), config)
    return LoraSpec(
        name=name,
        file=file.resolve(),
        format=lora_format,
        rank=max(config.rank, *(module.rank for module in modules)),
        scale=config.scale,
        num_bytes=file.stat().st_size,
        digest=_digest(directory, file, _options(lora_format, config, modules)),
        modules=modules,
    )


def _form(directory: Path) -> LoraFormat:
    found = [lora_format for lora_format, file in _FILES.items() if (directory / file).is_file()]
    if len(found) != 1:
        names = " or ".join(_FILES.values())
        raise broken(directory, f"it needs one weight file, {names}; it has {len(found)}")
    return found[0]


def _check_base(directory: Path, config: dict[str, Any], base: Path) -> None:
    wanted = config.get("base_fingerprint")
    if wanted is not None and wanted != fingerprint(base):
        raise broken(directory, "base_fingerprint in adapter_config.json is of another base model")


def _modules(
    directory: Path, lora_format: LoraFormat, tensors: list[Tensor], config: LoraConfig
) -> tuple[LoraModule, ...]:
    """Return the adapted layers.

    Every tensor belongs to one, and has its rank.
    """
    by_name = {tensor.name: tensor for tensor in tensors}
    modules = []
    for name in sorted(by_name):
        for suffix_a, suffix_b in _SUFFIXES[lora_format].items():
            if name.endswith(suffix_a):
                prefix = name.removesuffix(suffix_a)
                modules.append(_module(directory, lora_format, by_name, config, prefix, suffix_a, suffix_b))
    known = {tensor for module in modules for tensor in (module.a, module.b, module.magnitude)}
    for name in sorted(by_name):
        if name not in known:
            raise broken(directory, f"tensor {name!r} is not supported" + _hint(lora_format, name))
    if not 0 < len(modules) <= _MAX_MODULES:
        raise broken(directory, f"it adapts {len(modules)} layers; between 1 and {_MAX_MODULES} are possible")
    return tuple(modules)


def _module(
    directory: Path,
    lora_format: LoraFormat,
    tensors: Mapping[str, Tensor],
    config: LoraConfig,
    prefix: str,
    suffix_a: str,
    suffix_b: str,
) -> LoraModule:
    """Return the layer with the tensor names of `prefix`, checked."""
    path = prefix.removeprefix(_PEFT_PREFIX) if lora_format == "peft" else prefix
    if prefix + suffix_b not in tensors:
        raise broken(directory, f"tensor {prefix + suffix_b!r} is missing")
    rank, scale = config.of_layer(path)
    _check_pair(directory, lora_format, tensors[prefix + suffix_a], tensors[prefix + suffix_b], rank)
    magnitude = ""
    if config.is_dora:
        names = [prefix + suffix for suffix in _MAGNITUDES[lora_format]]
        magnitude = next((name for name in names if name in tensors), "")
        if not magnitude:
            raise broken(directory, f"tensor {names[0]!r} is missing")
        _check_floats(directory, tensors[magnitude], (1,))
    return LoraModule(
        path=path, a=prefix + suffix_a, b=prefix + suffix_b, magnitude=magnitude, rank=rank, scale=scale
    )


def _hint(lora_format: LoraFormat, name: str) -> str:
    if name.endswith(_MAGNITUDES[lora_format]):
        return ": it belongs to DoRA"
    if name.endswith(tuple(_SUFFIXES[lora_format].values())):
        return ": its other half is missing"
    if lora_format == "peft" and name.endswith(".weight"):
        return ": it replaces a weight of the model; save the adapter with save_embedding_layers=False"
    return ""


def _check_pair(directory: Path, lora_format: LoraFormat, a: Tensor, b: Tensor, rank: int) -> None:
    for tensor in (a, b):
        _check_floats(directory, tensor, (2, 3) if lora_format == "mlx-lm" else (2,))
    # mlx-lm stores layers of experts as (experts, rank, in) and (experts, out, rank).
    is_transposed = lora_format == "peft" or len(a.shape) == 3
    ranks = (a.shape[-2], b.shape[-1]) if is_transposed else (a.shape[-1], b.shape[-2])
    for tensor, found in zip((a, b), ranks, strict=True):
        if found != rank:
            raise broken(directory, f"tensor {tensor.name!r} has rank {found}, adapter_config.json {rank}")


def _check_floats(directory: Path, tensor: Tensor, num_axes: tuple[int, ...]) -> None:
    if tensor.dtype not in _FLOATS:
        raise broken(directory, f"tensor {tensor.name!r} has type {tensor.dtype}, not one of {_FLOATS}")
    if len(tensor.shape) not in num_axes:
        raise broken(directory, f"tensor {tensor.name!r} has shape {tensor.shape}")


def _options(lora_format: LoraFormat, config: LoraConfig, modules: tuple[LoraModule, ...]) -> str:
    """Return what decides the result beside the weights."""
    own = [f"/{module.path}:{module.scale.hex()}" for module in modules if module.scale != config.scale]
    return f"{lora_format}/{config.rank}/{config.scale.hex()}" + "".join(own)


def _digest(directory: Path, file: Path, options: str) -> bytes:
    digest = hashlib.sha256(options.encode())
    try:
        with file.open("rb") as stream:
            while piece := stream.read(1 << 20):
                digest.update(piece)
    except OSError as error:
        raise broken(directory, f"{file.name} cannot be read: {error.strerror}") from None
    return digest.digest()
