"""POST /invocations: SageMaker's one path for every kind of request."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from falcon.asgi import Request, Response

from mlxctl.inference import InferenceService
from mlxctl.ir.allowed_models import AllowedModels
from mlxctl.ir.errors import InsufficientScope, InvalidRequest
from mlxctl.protocols.invocations import EMBEDDINGS_PATH, read_invocation
from mlxctl.server.http.body import read_body, replace_body
from mlxctl.server.http.route import Route
from mlxctl.server.policy.caller import allowed_models
from mlxctl.state.settings import ServerSettings

# SageMaker's own options; a container that does not know them would answer as if they were not there.
_REFUSED_HEADERS = {
    "x-amzn-sagemaker-adapter-identifier": "name the adapter in the body: MODEL:ADAPTER as model",
    "x-amzn-sagemaker-session-id": "send the whole conversation; its prefix is cached",
}


class InvocationsResource:
    """Hands each body to the route that it is written for.

    `targets` are the routes and their resources by path. A body without a model gets the default one.
    """

    def __init__(
        self, inference: InferenceService, settings: ServerSettings, targets: Mapping[str, tuple[Route, Any]]
    ) -> None:
        self._inference = inference
        self._settings = settings
        self._targets = targets

    async def on_post(self, request: Request, response: Response) -> None:
        """Answer as the body's route does. Raises InvalidRequest, InsufficientScope."""
        for header, fix in _REFUSED_HEADERS.items():
            if request.get_header(header) is not None:
                raise InvalidRequest(f"the header {header} is not supported; {fix}")
        body = await read_body(request, limit_bytes=self._settings.max_body_bytes)
        path, with_model = await self._inference.preparation.parse(
            body, partial(read_invocation, default_models=self._default_models(allowed_models(request)))
        )
        route, resource = self._targets[path]
        if route.access not in request.context.identity.scopes:
            raise InsufficientScope(route.access, f"{request.path} with such a body")
        replace_body(request, body if with_model is None else with_model)
        # From here on it is a request of that route: with its time limit and errors.
        request.uri_template = path
        await resource.on_post(request, response)

    def _default_models(self, allowed: AllowedModels) -> dict[str, str]:
        def default_of(path: str, route: Route) -> str:
            if route.access != "embed":
                return self._inference.default_model(allowed)
            return self._inference.default_embedder(allowed, reranks=path != EMBEDDINGS_PATH)

        return {path: default_of(path, route) for path, (route, _) in self._targets.items()}
