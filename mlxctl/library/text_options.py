"""Options of text models, by the settings."""

from pathlib import Path

from mlxctl.ir import KVFormat
from mlxctl.ir.model_spec import TextModelOptions
from mlxctl.library.kv_config import read_kv_config
from mlxctl.state.settings import Settings
from mlxctl.state.settings.models import KVBits


def kv_bits(settings: Settings, name: str) -> KVBits:
    """Return the setting of the model's KV cache."""
    return settings.pool.kv_bits_by_name.get(name, settings.model.kv_bits)


def text_options(settings: Settings, name: str, path: Path) -> TextModelOptions:
    """Return the model's options by name, without a draft model.

    Reads its kv_config.json where the settings say so. Raises BrokenModel.
    """
    bits = kv_bits(settings, name)
    if bits == "config":
        return TextModelOptions(kv_format=read_kv_config(path))
    group_size = int(settings.model.kv_group_size)
    return TextModelOptions(
        kv_format=None if bits == "full" else KVFormat(bits=int(bits), group_size=group_size)
    )
