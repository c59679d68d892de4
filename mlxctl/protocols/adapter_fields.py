"""Fields of request bodies that choose LoRA adapters: `adapter` and `lora`.

`adapter` names mounted adapters, `"a+b"` several, `"none"` no adapter. `lora` is a list of `{name, scale}`;
the scale multiplies the adapter's own. Without both, the model's name decides (`base:adapter`).
"""

from typing import Annotated

from msgspec import Meta, Struct

from mlxctl.errors import InvalidRequest
from mlxctl.ir.lora import MAX_STACKED_ADAPTERS, LoraChoice

AdapterNames = Annotated[str, Meta(min_length=1, max_length=1024)]


class ScaledAdapter(Struct):
    """One adapter of a request."""

    name: Annotated[str, Meta(min_length=1, max_length=128)]
    scale: Annotated[float, Meta(ge=-100, le=100)] = 1.0


ScaledAdapters = Annotated[list[ScaledAdapter], Meta(max_length=MAX_STACKED_ADAPTERS)]


class AdapterFields(Struct, kw_only=True):
    """Base of bodies that choose LoRA adapters."""

    adapter: AdapterNames | None = None
    lora: ScaledAdapters | None = None


def adapter_choices(fields: AdapterFields) -> tuple[LoraChoice, ...] | None:
    """Return the adapters that a body chooses.

    None if it sets neither field. Raises InvalidRequest.
    """
    adapter, lora = fields.adapter, fields.lora
    if adapter is not None and lora is not None:
        raise InvalidRequest("adapter and lora are both set; use one of them", param="adapter")
    if lora is not None:
        return tuple(LoraChoice(name=each.name, scale=each.scale) for each in lora)
    if adapter is None:
        return None
    return () if adapter == "none" else tuple(LoraChoice(name=name) for name in adapter.split("+"))
