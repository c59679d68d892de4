"""The KV cache format of a model, by the settings. Pure."""

from mlxctl.ir import KVFormat
from mlxctl.settings import Settings


def chosen_kv_format(settings: Settings, name: str) -> KVFormat | None:
    """Return the format for the model of this name; None is unquantized."""
    bits = settings.pool.kv_bits_by_name.get(name, settings.model.kv_bits)
    return None if bits == "full" else KVFormat(bits=int(bits), group_size=int(settings.model.kv_group_size))
