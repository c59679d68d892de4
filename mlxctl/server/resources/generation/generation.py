"""Generation over HTTP, for every protocol."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any

import falcon
from falcon.asgi import Request, Response

from mlxctl.inference import InferenceService
from mlxctl.inference.call_context import CallContext
from mlxctl.inference.preparation import PackedRequest
from mlxctl.ir.timed_phases import timed
from mlxctl.protocols import AnswerStart, GenerationProtocol, ModelSummary, Reference, ReplyShape
from mlxctl.server.http.body import read_body
from mlxctl.server.http.disconnect import call_at_end
from mlxctl.server.http.open_requests import OpenHttpRequests
from mlxctl.server.http.rate_limits import admit
from mlxctl.server.http.stream import StartedReply, StreamedReply
from mlxctl.server.policy.caller import call_of, with_header_options
from mlxctl.server.resources.generation.conversations import Conversations, Stored
from mlxctl.state.settings import ServerSettings

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

DescribeModel = Callable[[str, CallContext], Awaitable[ModelSummary]]


class GenerationResource:
    """Parses a request, starts it, and answers whole or streamed.

    Requests may refer to `conversations`, which also store the answers. `describe_model` is for protocols
    whose answers describe the model.
    """

    def __init__(
        self,
        inference: InferenceService,
        protocol: GenerationProtocol,
        open_requests: OpenHttpRequests,
        settings: ServerSettings,
        *,
        conversations: Conversations | None = None,
        describe_model: DescribeModel | None = None,
    ) -> None:
        self._inference = inference
        self._protocol = protocol
        self._open_requests = open_requests
        self._settings = settings
        self._conversations = conversations
        self._describe_model = describe_model
        self._dropped_tools_log = DroppedToolsLog()

    async def answer_at_once(
        self,
        parsed: PackedRequest,  # noqa: ARG002
        shape: Any,  # noqa: ARG002
        call: CallContext,  # noqa: ARG002
    ) -> bytes | None:
        """Return the answer to a request that generates nothing, None to others."""
        return None

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
            elif (answer := await self.answer_at_once(parsed, shape, call)) is not None:
                response.data, response.content_type = answer, falcon.MEDIA_JSON
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

    async def _start(
        self, read: Callable[[], Awaitable[Whole]], request: Request, response: Response
    ) -> StartedReply:
        call = call_of(request)
        parsed, shape, stored = await read()
        encoder = self._protocol.create_encoder(shape)
        whole = with_header_options(parsed, request)
        name = await self._inference.models.answering(whole.head.model, call)
        # The answer has the name of the request, if that is the model's.
        shown = shape.model if name == whole.head.model else name
        whole = whole.with_head(model=name)
        described = ModelSummary()
        if self._describe_model is not None:
            described = await self._describe_model(name, call)
        model, head = self._inference.models.own_name(name), whole.head
        # Before documents are read and guardrails search long texts.
        admit(request, response, model, max_tokens=(head.max_tokens or 0) * head.num_choices)
        self._dropped_tools_log.warn_once(shape.dropped_tools)
        answers = await self._inference.generate_all(whole, call)
        encoder.start(AnswerStart(model=shown, sampling=answers.sampling, described=described))
        if self._conversations is None:
            return answers, encoder, _store_nothing
        return answers, encoder, partial(self._conversations.store, encoder, stored, request)


async def _store_nothing() -> None:
    pass


async def _itself(parsed: PackedRequest, shape: ReplyShape) -> Whole:
    return parsed, shape, None
