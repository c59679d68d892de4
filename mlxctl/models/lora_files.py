"""Reads LoRA adapter directories of mlx-lm and PEFT.

Reads no weights but for their digest. Both have an `adapter_config.json`. mlx-lm names the weights
`adapters.safetensors`, with `PATH.lora_a` (in, rank) and `PATH.lora_b` (rank, out), and a scale in the
configuration. PEFT names them `adapter_model.safetensors`, with `base_model.model.PATH.lora_A.weight` (rank,
in) and `lora_B.weight` (out, rank); its scale is alpha / rank, or alpha / sqrt(rank) with `use_rslora`.
"""

import hashlib
import math
from pathlib import Path
from typing import Any

import msgspec

from mlxctl.errors import BrokenModel
from mlxctl.ir.lora import LoraFormat, LoraModule, LoraSpec
from mlxctl.models.fingerprint import fingerprint
from mlxctl.models.safetensors_headers import Tensor, read_header

MAX_RANK = 512
_MAX_CONFIG_BYTES = 1 << 20
_MAX_MODULES = 100_000
_FILES: dict[LoraFormat, str] = {"mlx-lm": "adapters.safetensors", "peft": "adapter_model.safetensors"}
_SUFFIXES: dict[LoraFormat, tuple[str, str]] = {
    "mlx-lm": (".lora_a", ".lora_b"),
    "peft": (".lora_A.weight", ".lora_B.weight"),
}
_PEFT_PREFIX = "base_model.model."
_FLOATS = ("F16", "BF16", "F32")
# Fields of PEFT that change the result in a way that is not computed here, with their values without effect.
_UNSUPPORTED_PEFT: dict[str, tuple[object, ...]] = {
    "modules_to_save": (None, []),
    "bias": (None, "none"),
    "use_dora": (None, False),
    "fan_in_fan_out": (None, False),
    "lora_bias": (None, False),
    "rank_pattern": (None, {}),
    "alpha_pattern": (None, {}),
    "layer_replication": (None, []),
    "target_parameters": (None, []),
    "trainable_token_indices": (None, []),
    "use_qalora": (None, False),
    "alora_invocation_tokens": (None, []),
}


def read_lora(directory: Path, *, name: str, base: Path) -> LoraSpec:
    """Read and check an adapter for the model directory `base`. Blocks.

    Raises BrokenModel with the file and the field in error.
    """
    config = _read_config(directory)
    form = _form(directory)
    _check_base(directory, config, base)
    rank, scale = (_mlx_scale if form == "mlx-lm" else _peft_scale)(directory, config)
    file = directory / _FILES[form]
    modules = _modules(directory, form, read_header(file), rank)
    return LoraSpec(
        name=name,
        file=file.resolve(),
        form=form,
        rank=rank,
        scale=scale,
        num_bytes=file.stat().st_size,
        digest=_digest(directory, file, f"{form}/{rank}/{scale.hex()}"),
        modules=modules,
    )


def _read_config(directory: Path) -> dict[str, Any]:
    file = directory / "adapter_config.json"
    if not file.is_file():
        raise _broken(directory, "it has no adapter_config.json")
    try:
        if file.stat().st_size > _MAX_CONFIG_BYTES:
            raise _broken(directory, f"adapter_config.json has more than {_MAX_CONFIG_BYTES} bytes")
        config = msgspec.json.decode(file.read_bytes())
    except OSError as error:
        raise _broken(directory, f"adapter_config.json cannot be read: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _broken(directory, f"adapter_config.json is not valid JSON: {error}") from None
    if not isinstance(config, dict):
        raise _broken(directory, "adapter_config.json must be an object")
    return config


def _form(directory: Path) -> LoraFormat:
    found = [form for form, file in _FILES.items() if (directory / file).is_file()]
    if len(found) != 1:
        names = " or ".join(_FILES.values())
        raise _broken(directory, f"it needs one weight file, {names}; it has {len(found)}")
    return found[0]


def _check_base(directory: Path, config: dict[str, Any], base: Path) -> None:
    wanted = config.get("base_fingerprint")
    if wanted is not None and wanted != fingerprint(base):
        raise _broken(directory, "base_fingerprint in adapter_config.json is of another base model")


def _mlx_scale(directory: Path, config: dict[str, Any]) -> tuple[int, float]:
    kind = config.get("fine_tune_type", "lora")
    if kind != "lora":
        raise _broken(directory, f"fine_tune_type {kind!r} is not supported; only 'lora' is")
    options = config.get("lora_parameters")
    if not isinstance(options, dict):
        raise _broken(directory, "lora_parameters is missing in adapter_config.json")
    rank = _rank(directory, options.get("rank"), "lora_parameters.rank")
    return rank, _number(directory, options.get("scale"), "lora_parameters.scale")


def _peft_scale(directory: Path, config: dict[str, Any]) -> tuple[int, float]:
    if config.get("peft_type", "LORA") != "LORA":
        raise _broken(directory, f"peft_type {config['peft_type']!r} is not supported; only 'LORA' is")
    for field, harmless in _UNSUPPORTED_PEFT.items():
        if config.get(field) not in harmless:
            raise _broken(directory, f"{field} is not supported in adapter_config.json")
    rank = _rank(directory, config.get("r"), "r")
    alpha = _number(directory, config.get("lora_alpha"), "lora_alpha")
    return rank, alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)


def _rank(directory: Path, value: object, field: str) -> int:
    if type(value) is not int or not 1 <= value <= MAX_RANK:
        raise _broken(directory, f"{field} must be a whole number from 1 to {MAX_RANK}, not {value!r}")
    return value


def _number(directory: Path, value: object, field: str) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):  # type: ignore[arg-type]
        raise _broken(directory, f"{field} must be a number, not {value!r}")
    return float(value)  # type: ignore[arg-type]


def _modules(directory: Path, form: LoraFormat, tensors: list[Tensor], rank: int) -> tuple[LoraModule, ...]:
    """Return the adapted layers.

    Every tensor belongs to one, and has the rank.
    """
    by_name = {tensor.name: tensor for tensor in tensors}
    suffix_a, suffix_b = _SUFFIXES[form]
    modules = []
    for name in sorted(by_name):
        if not name.endswith(suffix_a):
            continue
        tensor_path = name.removesuffix(suffix_a)
        other = tensor_path + suffix_b
        if other not in by_name:
            raise _broken(directory, f"tensor {other!r} is missing")
        _check_pair(directory, form, by_name[name], by_name[other], rank)
        path = tensor_path.removeprefix(_PEFT_PREFIX) if form == "peft" else tensor_path
        modules.append(LoraModule(path=path, a=name, b=other))
    known = {tensor for module in modules for tensor in (module.a, module.b)}
    for name in sorted(by_name):
        if name not in known:
            raise _broken(directory, f"tensor {name!r} is not supported" + _hint(name, suffix_b))
    if not 0 < len(modules) <= _MAX_MODULES:
        raise _broken(
            directory, f"it adapts {len(modules)} layers; between 1 and {_MAX_MODULES} are possible"
        )
    return tuple(modules)


def _hint(name: str, suffix_b: str) -> str:
    if name.endswith((".m", "lora_magnitude_vector.weight", "lora_magnitude_vector")):
        return ": it belongs to DoRA"
    return ": its other half is missing" if name.endswith(suffix_b) else ""


def _check_pair(directory: Path, form: LoraFormat, a: Tensor, b: Tensor, rank: int) -> None:
    for tensor in (a, b):
        if tensor.dtype not in _FLOATS:
            raise _broken(directory, f"tensor {tensor.name!r} has type {tensor.dtype}, not one of {_FLOATS}")
        if len(tensor.shape) not in ((2, 3) if form == "mlx-lm" else (2,)):
            raise _broken(directory, f"tensor {tensor.name!r} has shape {tensor.shape}")
    # mlx-lm stores layers of experts as (experts, rank, in) and (experts, out, rank).
    is_transposed = form == "peft" or len(a.shape) == 3
    ranks = (a.shape[-2], b.shape[-1]) if is_transposed else (a.shape[-1], b.shape[-2])
    for tensor, found in zip((a, b), ranks, strict=True):
        if found != rank:
            raise _broken(directory, f"tensor {tensor.name!r} has rank {found}, adapter_config.json {rank}")


def _digest(directory: Path, file: Path, options: str) -> bytes:
    digest = hashlib.sha256(options.encode())
    try:
        with file.open("rb") as stream:
            while piece := stream.read(1 << 20):
                digest.update(piece)
    except OSError as error:
        raise _broken(directory, f"{file.name} cannot be read: {error.strerror}") from None
    return digest.digest()


def _broken(directory: Path, what: str) -> BrokenModel:
    return BrokenModel(directory, f"adapter {str(directory)!r} cannot be used: {what}")
