"""GET /model_info: a model as SGLang describes one."""

from msgspec import Struct

from mlxctl.inference import ServedModel
from mlxctl.server.resources.text.tokenization import ModelInfoResource


class SGLangModelInfo(Struct, kw_only=True):
    """A model; its paths are its name."""

    model_path: str
    tokenizer_path: str
    is_generation: bool
    max_context_length: int


class SGLangModelInfoResource(ModelInfoResource):
    """GET /model_info: one model."""

    def describe(self, model: ServedModel) -> SGLangModelInfo:
        """Return what SGLang's clients read."""
        return SGLangModelInfo(
            model_path=model.name,
            tokenizer_path=model.name,
            is_generation=model.facts.purpose == "text",
            max_context_length=model.context_length,
        )
