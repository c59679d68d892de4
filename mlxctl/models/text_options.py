"""Options of text models, by the settings. Pure."""

from mlxctl.ir import KVFormat
from mlxctl.ir.model_spec import TextModelOptions
from mlxctl.settings import Settings


def text_options(settings: Settings, name: str) -> TextModelOptions:
    """Return the model's options by name, without a draft model."""
    bits = settings.pool.kv_bits_by_name.get(name, settings.model.kv_bits)
    group_size = int(settings.model.kv_group_size)
    return TextModelOptions(
        kv_format=None if bits == "full" else KVFormat(bits=int(bits), group_size=group_size)
    )
