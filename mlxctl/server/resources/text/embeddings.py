"""Texts to vectors, for embeddings and reranking."""

from collections.abc import Callable
from typing import Any

import falcon
from falcon.asgi import Request, Response

from mlxctl.inference import InferenceService
from mlxctl.protocols import WireProtocol
from mlxctl.protocols.encoder import ParsedTexts
from mlxctl.server.http.body import read_body
from mlxctl.server.http.open_requests import OpenHttpRequests
from mlxctl.server.http.rate_limits import admit
from mlxctl.server.http.route import GENERATION_ERRORS, Operation, Route
from mlxctl.server.policy.caller import call_of
from mlxctl.state.settings import ServerSettings

ParseTexts = Callable[[bytes], ParsedTexts]


class EmbeddingsResource:
    """Parses the request, computes the vectors and answers."""

    def __init__(
        self,
        inference: InferenceService,
        open_requests: OpenHttpRequests,
        settings: ServerSettings,
        *,
        parse: ParseTexts,
        reranks: bool,
    ) -> None:
        """Bodies without a model are for the first embedder, or reranker."""
        self._parse = parse
        self._reranks = reranks
        self._inference = inference
        self._open_requests = open_requests
        self._settings = settings

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


def embeddings_route(
    path: str,
    summary: str,
    parse: ParseTexts,
    *,
    body: type[Any],
    answer: type[Any],
    other_answers: tuple[type[Any], ...] = (),
    protocol: WireProtocol,
    aliases: tuple[str, ...] = (),
    reranks: bool = False,
) -> Route:
    """Return the route of a dialect's embeddings or scores."""
    operation = Operation(
        method="post",
        summary=summary,
        body=body,
        answer=answer,
        other_answers=other_answers,
        errors=GENERATION_ERRORS,
    )
    return Route(
        path=path,
        aliases=aliases,
        resource=lambda context: EmbeddingsResource(
            context.services.inference,
            context.open_requests,
            context.settings,
            parse=parse,
            reranks=reranks,
        ),
        protocol=protocol,
        access="embed",
        operations=(operation,),
    )
