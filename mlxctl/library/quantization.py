"""The quantization that a configuration names, of MLX and of other tools."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mlxctl.library.text_config import whole_number


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantization:
    """The packing of weights.

    `bits` is that of most weights (None when only the method is named); `group_size` weights share a scale.
    """

    method: str
    bits: int | None
    group_size: int | None

    @property
    def label(self) -> str:
        """The quantization as text, for tables."""
        bits = f"{self.bits}-bit" if self.bits else ""
        return (
            bits
            if self.method == "affine" and bits
            else " ".join(word for word in (bits, self.method) if word)
        )


def find_quantization(config: Mapping[str, Any]) -> Quantization | None:
    """Return the quantization of the configuration, None for floating-point weights."""
    found = config.get("quantization") or config.get("quantization_config")
    if not isinstance(found, Mapping):
        return None
    method = found.get("mode") or found.get("quant_method") or "affine"
    return Quantization(
        method=str(method), bits=whole_number(found, "bits"), group_size=whole_number(found, "group_size")
    )


def group_sizes(config: Mapping[str, Any]) -> dict[str, int]:
    """Return group sizes by layer, and the default under the empty name."""
    found = config.get("quantization") or config.get("quantization_config")
    if not isinstance(found, Mapping):
        return {}
    named = {
        name: whole_number(entry, "group_size") for name, entry in found.items() if isinstance(entry, Mapping)
    }
    return {name: size for name, size in {**named, "": whole_number(found, "group_size")}.items() if size}
