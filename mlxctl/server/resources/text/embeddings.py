"""Texts to vectors, for embeddings and reranking."""

import falcon
from falcon.asgi import Request, Response

from mlxctl.protocols.dialect import TextsRoute
from mlxctl.server.http.body import read_body
from mlxctl.server.http.rate_limits import admit
from mlxctl.server.http.route import GENERATION_ERRORS, Operation, Route, RouteContext
from mlxctl.server.policy.caller import call_of


class EmbeddingsResource:
    """Parses the request, computes the vectors and answers."""

    def __init__(self, context: RouteContext, route: TextsRoute) -> None:
        """Bodies without a model are for the first embedder, or reranker."""
        self._parse = route.parse
        self._reranks = route.reranks
        self._inference = context.services.inference
        self._open_requests = context.open_requests
        self._settings = context.settings

    async def on_post(self, request: Request, response: Response) -> None:
        """Compute embeddings; a disconnect cancels the work."""
        self._open_requests.enter(request.scope)
        call = call_of(request)
        body = await read_body(request, limit_bytes=self._settings.max_body_bytes)
        async with call.within_deadline():
            packed, shape = await self._inference.preparation.parse(body, self._parse)
            if not packed.head.model:
                # Text Embeddings Inference and llama.cpp serve one model, so that requests name none.
                packed = packed.with_model(
                    self._inference.models.default_embedder(call.models, reranks=self._reranks)
                )
            manager = self._inference.models
            packed = packed.with_model(await manager.registered_name(packed.head.model, call, "embeddings"))
            model = manager.own_name(packed.head.model)
            admit(request, response, model)
            await call.check(model)
            result = await self._inference.embed(packed, call)
            num_bytes = sum(map(len, result.vectors))
            response.data = await self._inference.preparation.call(shape.encode, result, num_bytes=num_bytes)
        response.content_type = falcon.MEDIA_JSON


def embeddings_route(route: TextsRoute) -> Route:
    """Return the route of embeddings or scores."""
    operation = Operation(
        method="post",
        summary=route.summary,
        body=route.body,
        answer=route.answer,
        other_answers=route.other_answers,
        errors=GENERATION_ERRORS,
    )
    return Route(
        path=route.path,
        aliases=route.aliases,
        resource=lambda context: EmbeddingsResource(context, route),
        protocol=route.protocol,
        access="embed",
        operations=(operation,),
    )
