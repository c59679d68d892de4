"""Which adapter a model gets, by its `model_type`. Imported on demand: one row per architecture."""

from importlib import import_module

from mlxctl.adapters.adapter import NOTHING_KNOWN, ModelAdapter
from mlxctl.ir import ModelCapabilities, ModelFacts

_QWEN = ("mlxctl.adapters.qwen", "QwenAdapter")
_DEFAULT = ("mlxctl.adapters.default", "DefaultAdapter")

_ADAPTERS = {
    "qwen2": _QWEN,
    "qwen2_moe": _QWEN,
    "qwen3": _QWEN,
    "qwen3_moe": _QWEN,
    "qwen3_next": _QWEN,
    "qwen3_5": _QWEN,
    "qwen3_5_text": _QWEN,
    "qwen3_5_moe": _QWEN,
    "qwen3_5_moe_text": _QWEN,
}


def create_adapter(facts: ModelFacts, *, name: str, capabilities: ModelCapabilities = NOTHING_KNOWN) -> ModelAdapter:
    """Make the adapter of a model that is served as `name`; raises BrokenModel when tokenizer or template cannot be used.

    `capabilities` is what a probe found out or a person laid down; the rest is told from the model's files.
    """
    module, class_name = _ADAPTERS.get(facts.model_type, _DEFAULT)
    adapter: ModelAdapter = getattr(import_module(module), class_name)(facts, name=name, capabilities=capabilities)
    return adapter
