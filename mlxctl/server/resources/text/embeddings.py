"""Texts to vectors, for embeddings and reranking."""

from collections.abc import Callable
from typing import Any, Protocol

import falcon
from falcon.asgi import Request, Response

from mlxctl.inference import InferenceService
from mlxctl.ir import EmbeddingRequest, EmbeddingResult
from mlxctl.protocols import WireProtocol
from mlxctl.server.http.body import read_body
from mlxctl.server.http.deadline import deadline_of
from mlxctl.server.http.open_requests import OpenHttpRequests
from mlxctl.server.http.rate_limits import admit
from mlxctl.server.http.route import GENERATION_ERRORS, Operation, Route
from mlxctl.server.policy.caller import allowed_models
from mlxctl.server.policy.decisions import decide
from mlxctl.state.settings import ServerSettings


class VectorFormatter(Protocol):
    """One wire format for one request: `parse` once, then `whole`.

    A request whose body names no model has the name "".
    """

    def parse(self, body: bytes) -> EmbeddingRequest:
        """Parse a body. Raises InvalidRequest with the caller's field as `param`."""

    def whole(self, result: EmbeddingResult) -> bytes:
        """Return the answer as JSON."""


class EmbeddingsResource:
    """Parses the request, computes the vectors and answers."""

    def __init__(
        self,
        inference: InferenceService,
        open_requests: OpenHttpRequests,
        settings: ServerSettings,
        *,
        create_formatter: Callable[[], VectorFormatter],
    ) -> None:
        self._create_formatter = create_formatter
        self._inference = inference
        self._open_requests = open_requests
        self._settings = settings

    def answered(self, formatter: VectorFormatter, model: str, request: Request) -> None:
        """Called when the vectors are computed."""

    async def on_post(self, request: Request, response: Response) -> None:
        """Compute embeddings; a disconnect cancels the work."""
        self._open_requests.enter(request.scope)
        formatter = self._create_formatter()
        deadline = deadline_of(request, self._settings)
        body = await read_body(request, limit_bytes=self._settings.max_body_bytes)
        async with deadline.limit():
            packed = await self._inference.preparation.parse_with(formatter, "parse", body)
            allowed = allowed_models(request)
            if not packed.head.model:
                # Requests of llama.cpp and Text Embeddings Inference name no model: those servers have one.
                reranks = packed.head.query is not None
                packed = packed.with_model(self._inference.default_embedder(allowed, reranks=reranks))
            manager = self._inference.manager
            packed = packed.with_model(
                await manager.registered_name(packed.head.model, allowed, "embeddings")
            )
            model = manager.own_name(packed.head.model)
            admit(request, response, model)
            await decide(request, model)
            result = await self._inference.embed(
                packed, allowed, request_id=request.context.request_id, caller=request.context.caller
            )
            self.answered(formatter, packed.head.model, request)
            num_bytes = sum(map(len, result.vectors))
            response.data = await self._inference.preparation.call(
                formatter.whole, result, num_bytes=num_bytes
            )
        response.content_type = falcon.MEDIA_JSON


def embeddings_route(
    path: str,
    summary: str,
    create_formatter: Callable[[], VectorFormatter],
    *,
    body: type[Any],
    answer: type[Any],
    other_answers: tuple[type[Any], ...] = (),
    protocol: WireProtocol,
    aliases: tuple[str, ...] = (),
    resource: type[EmbeddingsResource] = EmbeddingsResource,
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
        resource=lambda context: resource(
            context.services.inference,
            context.open_requests,
            context.settings,
            create_formatter=create_formatter,
        ),
        protocol=protocol,
        access="embed",
        operations=(operation,),
    )
