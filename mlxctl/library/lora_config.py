"""Configuration of LoRA adapters: `adapter_config.json` of mlx-lm and PEFT.

mlx-lm's has rank and scale. PEFT's scale is alpha / rank, or alpha / sqrt(rank) with `use_rslora`; rank and
alpha may differ between layers.
"""

import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from mlxctl.ir.errors import BrokenModel
from mlxctl.ir.lora import LoraFormat

MAX_RANK = 512
_MAX_BYTES = 1 << 20
_LAYER_NAME = re.compile(r"\^?[A-Za-z0-9_.-]{1,256}")
# Fields of PEFT that change the result in a way that is not computed here, with their values without effect.
_UNSUPPORTED_PEFT: dict[str, tuple[object, ...]] = {
    "modules_to_save": (None, []),
    "bias": (None, "none"),
    "fan_in_fan_out": (None, False),
    "lora_bias": (None, False),
    "layer_replication": (None, []),
    "target_parameters": (None, []),
    "trainable_token_indices": (None, []),
    "use_qalora": (None, False),
    "alora_invocation_tokens": (None, []),
    "arrow_config": (None,),
    "use_bdlora": (None, False),
}
# Other ways to initialize an adapter change the weights of its base, too.
_INIT_WITH_SAME_BASE = (None, True, False, "gaussian", "orthogonal", "eva")


@dataclass(frozen=True, slots=True)
class LoraConfig:
    """Rank and scale of an adapter's layers.

    With `is_dora` each layer has magnitudes, too. `ranks` and `alphas` are PEFT's of single layers, by the
    end of their path, or by their path after a "^".
    """

    rank: int
    scale: float
    is_dora: bool = False
    alpha: float = 0.0
    is_rank_stabilized: bool = False
    ranks: dict[str, int] = field(default_factory=dict)
    alphas: dict[str, float] = field(default_factory=dict)

    def of_layer(self, path: str) -> tuple[int, float]:
        """Return rank and scale of the layer at a path."""
        if not self.ranks and not self.alphas:
            return self.rank, self.scale
        rank, alpha = _of_layer(self.ranks, path), _of_layer(self.alphas, path)
        rank = self.rank if rank is None else rank
        alpha = self.alpha if alpha is None else alpha
        return rank, _peft_scale(alpha, rank, is_rank_stabilized=self.is_rank_stabilized)


def read_json(directory: Path) -> dict[str, Any]:
    """Return the object of an adapter's configuration. Raises BrokenModel."""
    file = directory / "adapter_config.json"
    if not file.is_file():
        raise broken(directory, "it has no adapter_config.json")
    try:
        if file.stat().st_size > _MAX_BYTES:
            raise broken(directory, f"adapter_config.json has more than {_MAX_BYTES} bytes")
        config = msgspec.json.decode(file.read_bytes())
    except OSError as error:
        raise broken(directory, f"adapter_config.json cannot be read: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise broken(directory, f"adapter_config.json is not valid JSON: {error}") from None
    if not isinstance(config, dict):
        raise broken(directory, "adapter_config.json must be an object")
    return config


def read_lora_config(directory: Path, config: dict[str, Any], form: LoraFormat) -> LoraConfig:
    """Return rank and scale of an adapter.

    Raises BrokenModel with the field in error.
    """
    found = (_mlx_config if form == "mlx-lm" else _peft_config)(directory, config)
    if found.is_dora and not found.scale:
        raise broken(directory, "the scale of a DoRA adapter must not be 0")
    return found


def broken(directory: Path, what: str) -> BrokenModel:
    """Return the error of an adapter directory that cannot be used."""
    return BrokenModel(directory, f"adapter {str(directory)!r} cannot be used: {what}")


def _mlx_config(directory: Path, config: dict[str, Any]) -> LoraConfig:
    kind = config.get("fine_tune_type", "lora")
    if kind not in ("lora", "dora"):
        raise broken(directory, f"fine_tune_type {kind!r} is not supported; only 'lora' and 'dora' are")
    options = config.get("lora_parameters")
    if not isinstance(options, dict):
        raise broken(directory, "lora_parameters is missing in adapter_config.json")
    rank = _rank(directory, options.get("rank"), "lora_parameters.rank")
    scale = _number(directory, options.get("scale"), "lora_parameters.scale")
    return LoraConfig(rank, scale, is_dora=kind == "dora")


def _peft_config(directory: Path, config: dict[str, Any]) -> LoraConfig:
    if config.get("peft_type", "LORA") != "LORA":
        raise broken(directory, f"peft_type {config['peft_type']!r} is not supported; only 'LORA' is")
    for name, harmless in _UNSUPPORTED_PEFT.items():
        if config.get(name) not in harmless:
            raise broken(directory, f"{name} is not supported in adapter_config.json")
    init = config.get("init_lora_weights")
    if init not in _INIT_WITH_SAME_BASE:
        raise broken(
            directory,
            f"init_lora_weights {init!r} is not supported: it changes the weights of the base model; "
            "convert the adapter to LoRA when it is saved",
        )
    rank = _rank(directory, config.get("r"), "r")
    alpha = _number(directory, config.get("lora_alpha"), "lora_alpha")
    is_rank_stabilized = _flag(directory, config, "use_rslora")
    found = LoraConfig(
        rank,
        _peft_scale(alpha, rank, is_rank_stabilized=is_rank_stabilized),
        is_dora=_flag(directory, config, "use_dora"),
        alpha=alpha,
        is_rank_stabilized=is_rank_stabilized,
        ranks=_pattern(directory, config, "rank_pattern", _rank),
        alphas=_pattern(directory, config, "alpha_pattern", _number),
    )
    if found.alphas and not alpha:
        raise broken(directory, "lora_alpha must not be 0 with alpha_pattern")
    return found


def _peft_scale(alpha: float, rank: int, *, is_rank_stabilized: bool) -> float:
    return alpha / (math.sqrt(rank) if is_rank_stabilized else rank)


def _pattern(directory: Path, config: dict[str, Any], name: str, check: Any) -> dict[str, Any]:
    """Return a field's values by layer.

    PEFT reads the names as regular expressions. Only plain names are supported.
    """
    pattern = config.get(name) or {}
    if not isinstance(pattern, dict):
        raise broken(directory, f"{name} must be an object")
    for layer in pattern:
        # SEC: a regular expression of an adapter could take hours.
        if not _LAYER_NAME.fullmatch(layer):
            raise broken(
                directory,
                f"{name} {layer!r} is not the name of a layer; regular expressions are not supported",
            )
    return {layer: check(directory, value, f"{name}.{layer}") for layer, value in pattern.items()}


def _of_layer(pattern: dict[str, Any], path: str) -> Any:
    for name, value in pattern.items():
        if path == name.removeprefix("^") or path.endswith(f".{name}"):
            return value
    return None


def _flag(directory: Path, config: dict[str, Any], name: str) -> bool:
    value = config.get(name)
    if value not in (None, False, True):
        raise broken(directory, f"{name} must be true or false, not {value!r}")
    return bool(value)


def _rank(directory: Path, value: object, name: str) -> int:
    if type(value) is not int or not 1 <= value <= MAX_RANK:
        raise broken(directory, f"{name} must be a whole number from 1 to {MAX_RANK}, not {value!r}")
    return value


def _number(directory: Path, value: object, name: str) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):  # type: ignore[arg-type]
        raise broken(directory, f"{name} must be a number, not {value!r}")
    return float(value)  # type: ignore[arg-type]
