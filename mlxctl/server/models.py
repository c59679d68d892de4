"""GET /v1/models and /v1/models/{name}: the same for every protocol's clients, which ask the same address."""

import falcon
from falcon.asgi import Request, Response

from mlxctl.errors import UnknownModel
from mlxctl.inference import InferenceService, ServedModel
from mlxctl.protocols import ModelCard, encode_model, encode_model_list


class ModelsResource:
    """The list of models, whole in one page."""

    def __init__(self, inference: InferenceService) -> None:
        self._inference = inference

    async def on_get(self, request: Request, response: Response) -> None:  # noqa: ARG002
        """List what is served."""
        response.data = encode_model_list([_card(model) for model in self._inference.served_models()])
        response.content_type = falcon.MEDIA_JSON

    on_head = on_get


class ModelResource:
    """One model, by its name, which may contain slashes."""

    def __init__(self, inference: InferenceService) -> None:
        self._inference = inference

    async def on_get(self, request: Request, response: Response, name: str) -> None:  # noqa: ARG002
        """Describe the model, or raise UnknownModel."""
        models = {model.name: model for model in self._inference.served_models()}
        if name not in models:
            raise UnknownModel(name, tuple(models))
        response.data = encode_model(_card(models[name]))
        response.content_type = falcon.MEDIA_JSON

    on_head = on_get


def _card(model: ServedModel) -> ModelCard:
    return ModelCard(
        id=model.name,
        created=model.created,
        context_length=model.facts.context_length,
        supports_tools=model.supports_tools,
        supports_thinking=model.supports_thinking,
        is_demo=model.is_demo,
    )
