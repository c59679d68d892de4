"""Generation over HTTP, for every protocol."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial

import falcon
from falcon.asgi import Request, Response

from mlxctl.inference.call_context import CallContext
from mlxctl.inference.preparation import PackedRequest
from mlxctl.ir import GenerationRequest
from mlxctl.ir.timed_phases import timed
from mlxctl.protocols import (
    ROUTE_HEADER,
    AnswerStart,
    GenerationProtocol,
    ModelSummary,
    Reference,
    ReplyShape,
)
from mlxctl.server.http.answer import answer
from mlxctl.server.http.body import read_body
from mlxctl.server.http.disconnect import call_at_end
from mlxctl.server.http.rate_limits import admit
from mlxctl.server.http.route import RouteContext
from mlxctl.server.http.stream import StartedReply, StreamedReply
from mlxctl.server.policy.caller import call_of, with_header_options
from mlxctl.server.resources.generation.conversations import Conversations, Stored, ThreadConversations

# SEC: callers choose these names, so the log gets a limited number of limited length.
_MOST_TYPES = 64
_MOST_CHARS = 64

_log = logging.getLogger(__name__)


class DroppedToolsLog:
    """Warns once for each dropped tool type. Event-loop thread only."""

    def __init__(self) -> None:
        self._logged: set[str] = set()

    def warn_once(self, types: Iterable[str]) -> None:
        """Log the types that were not logged before."""
        for name in (kind[:_MOST_CHARS] for kind in types):
            if name not in self._logged and len(self._logged) < _MOST_TYPES:
                self._logged.add(name)
                _log.warning("tools that only their provider can run are dropped from requests: %r", name)


Whole = tuple[PackedRequest, ReplyShape, Stored | None]
"""A parsed request, the shape of its answer, and what is stored of its reference."""


class GenerationResource:
    """Parses a request, starts it, and answers whole or streamed.

    Requests may refer to `conversations`, by default the protocol's threads, which also store the answers.
    """

    def __init__(
        self,
        context: RouteContext,
        protocol: GenerationProtocol,
        *,
        conversations: Conversations | None = None,
    ) -> None:
        services, threads = context.services, protocol.threads
        if threads is not None:
            conversations = ThreadConversations(services.responses, threads)
        self._inference = services.inference
        self._router = services.router
        self._catalog = services.catalog
        self._protocol = protocol
        self._open_requests = context.open_requests
        self._settings = context.settings
        self._conversations = conversations
        self._dropped_tools_log = DroppedToolsLog()

    async def on_post(self, request: Request, response: Response, **names: str) -> None:
        """Answer a request; `names` are the path parameters, for the conversations.

        The generation starts before the first byte is sent, so that errors have a status. Only a stream that
        has not started after the ping interval (model loading, queueing) begins with pings.
        """
        self._open_requests.enter(request.scope)
        call = call_of(request)
        body = await read_body(request, limit_bytes=self._settings.max_body_bytes)
        async with call.within_deadline():
            parsed, shape = await self._inference.preparation.parse(body, self._protocol.parse)
            if isinstance(parsed, Reference):
                streams, read = parsed.stream, partial(self._read, parsed, body, request, names)
            elif shape.loads_only:
                answer(response, await self._load(parsed.head, shape, call))
                return
            else:
                streams, read = parsed.head.stream, partial(_itself, parsed, shape)
            starting = self._start(read, request, response)
            if not streams:
                answers, encoder, store = await starting
                call_at_end(request.scope, answers.cancel)
                results = await answers.results()
                with timed("format"):
                    response.data = encoder.whole(*results)
                response.content_type = falcon.MEDIA_JSON
                await store()
                return
            reply = StreamedReply(
                starting,
                call,
                create_waiting=partial(self._protocol.create_encoder, shape),
                ping_interval_seconds=self._settings.ping_interval_seconds,
            )
            call_at_end(request.scope, reply.cancel)
            chunks = await reply.chunks()
        response.content_type = self._protocol.stream_media_type
        response.set_headers({"cache-control": "no-cache", "x-accel-buffering": "no"})
        response.stream = chunks

    async def read(self, body: bytes | bytearray, request: Request, names: Mapping[str, str]) -> Whole:
        """Parse a body, with what is stored of its reference.

        Raises RequestError, CapacityError.
        """
        parsed, shape = await self._inference.preparation.parse(body, self._protocol.parse)
        if isinstance(parsed, Reference):
            return await self._read(parsed, body, request, names)
        return parsed, shape, None

    async def _read(
        self, reference: Reference, body: bytes | bytearray, request: Request, names: Mapping[str, str]
    ) -> Whole:
        """Parse a body again, with what is stored of its reference."""
        assert self._conversations is not None, "only bodies of stored conversations refer to something"
        assert self._protocol.parse_with is not None, "such a protocol takes what is stored"
        stored = await self._conversations.read(reference, request, names)
        parsed, shape = await self._inference.preparation.parse(
            body, self._protocol.parse_with, stored, num_bytes=len(body) + stored.num_bytes
        )
        return parsed, shape, stored

    async def _load(self, head: GenerationRequest, shape: ReplyShape, call: CallContext) -> bytes:
        """Load or unload the model of a request without content."""
        assert self._protocol.encode_loaded is not None, "only such a protocol has requests without content"
        models, keep = self._inference.models, head.keep_alive
        name = await models.answering(head.model, call)
        is_unloaded = keep is not None and keep.seconds == 0 and "models:write" in call.caller.scopes
        if is_unloaded:
            await models.check(name, call)
        else:
            await models.load(name, call)
        models.keep_alive(name, keep, call)
        shown = shape.model if name == head.model else name
        return self._protocol.encode_loaded(shape, shown, is_unloaded)

    async def _describe(self, name: str, call: CallContext) -> ModelSummary:
        """Describe the model of this name; an unknown one is empty."""
        models = self._inference.models
        own_name = models.own_name(name)
        served = next((each for each in models.served(call.models) if each.name == own_name), None)
        if served is None:
            return ModelSummary()
        described = await self._catalog.describe(served.name, served.facts.path)
        return ModelSummary(
            architecture=served.facts.model_type,
            quantization=described.quantization_label,
            context_length=served.context_length,
        )

    async def _start(
        self, read: Callable[[], Awaitable[Whole]], request: Request, response: Response
    ) -> StartedReply:
        call = call_of(request)
        parsed, shape, stored = await read()
        encoder = self._protocol.create_encoder(shape)
        whole = with_header_options(parsed, request)
        requested = whole.head.model
        name = await self._router.answering(requested, call)
        # The answer has the name of the request, if that is the model's.
        shown = shape.model if name == requested else name
        whole = whole.with_head(model=name)
        described = await self._describe(name, call) if self._protocol.describes_model else ModelSummary()
        model, head = self._inference.models.own_name(name), whole.head
        # Before documents are read and guardrails search long texts.
        admit(request, response, model, max_tokens=(head.max_tokens or 0) * head.num_choices)
        self._dropped_tools_log.warn_once(shape.dropped_tools)
        answers = await self._router.generate_all(
            whole, call, requested=requested, on_route=partial(response.set_header, ROUTE_HEADER)
        )
        encoder.start(AnswerStart(model=shown, sampling=answers.sampling, described=described))
        if self._conversations is None:
            return answers, encoder, _store_nothing
        return answers, encoder, partial(self._conversations.store, encoder, stored, request)


async def _store_nothing() -> None:
    pass


async def _itself(parsed: PackedRequest, shape: ReplyShape) -> Whole:
    return parsed, shape, None
