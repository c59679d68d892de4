"""Which adapter a model gets, by its `model_type`. Imported on demand: one row per family."""

from importlib import import_module

from mlxctl.adapters.adapter import NOTHING_KNOWN, ModelAdapter
from mlxctl.ir import ModelCapabilities, ModelFacts

_DEFAULT = ("mlxctl.adapters.default", "DefaultAdapter")

# By the beginning of `model_type`; the longest that fits counts.
_ADAPTERS = {
    "qwen": ("mlxctl.adapters.qwen", "QwenAdapter"),
    "glm": ("mlxctl.adapters.glm4", "Glm4Adapter"),
    "chatglm": ("mlxctl.adapters.glm4", "Glm4Adapter"),
    "llama": ("mlxctl.adapters.llama", "LlamaAdapter"),
    "mllama": ("mlxctl.adapters.llama", "LlamaAdapter"),
    "gemma": ("mlxctl.adapters.gemma", "GemmaAdapter"),
    "mistral": ("mlxctl.adapters.mistral", "MistralAdapter"),
    "ministral": ("mlxctl.adapters.mistral", "MistralAdapter"),
    "mixtral": ("mlxctl.adapters.mistral", "MistralAdapter"),
    "pixtral": ("mlxctl.adapters.mistral", "MistralAdapter"),
    "lfm2": ("mlxctl.adapters.liquid", "LiquidAdapter"),
    "gpt_oss": ("mlxctl.adapters.gpt_oss", "GptOssAdapter"),
    "deepseek": ("mlxctl.adapters.deepseek", "DeepseekAdapter"),
    "kimi": ("mlxctl.adapters.kimi", "KimiAdapter"),
    "minimax": ("mlxctl.adapters.minimax", "MinimaxAdapter"),
    "granite": ("mlxctl.adapters.granite", "GraniteAdapter"),
    "phi": ("mlxctl.adapters.phi", "PhiAdapter"),
    "cohere": ("mlxctl.adapters.cohere", "CohereAdapter"),
    "seed_oss": ("mlxctl.adapters.seed", "SeedAdapter"),
    "minicpm": ("mlxctl.adapters.minicpm", "MinicpmAdapter"),
}


def create_adapter(facts: ModelFacts, *, name: str, capabilities: ModelCapabilities = NOTHING_KNOWN) -> ModelAdapter:
    """Make the adapter of a model that is served as `name`; raises BrokenModel when tokenizer or template cannot be used.

    `capabilities` are what was found out about the model before; they win over what its files suggest.
    """
    fitting = [beginning for beginning in _ADAPTERS if facts.model_type.startswith(beginning)]
    module, class_name = _ADAPTERS[max(fitting, key=len)] if fitting else _DEFAULT
    adapter: ModelAdapter = getattr(import_module(module), class_name)(facts, name=name, capabilities=capabilities)
    return adapter
