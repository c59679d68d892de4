"""Generation over HTTP, for every protocol.

Each protocol mounts GenerationResource with a factory of its formatters.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

import falcon
from falcon.asgi import Request, Response

from mlxctl.inference import Answers, InferenceService
from mlxctl.inference.preparation import PackedRequest
from mlxctl.inference.request_context import RequestContext
from mlxctl.ir import SamplingParams
from mlxctl.ir.timed_phases import timed
from mlxctl.protocols import Formatter
from mlxctl.server.http.body import read_body
from mlxctl.server.http.deadline import Deadline, deadline_of
from mlxctl.server.http.disconnect import call_at_end
from mlxctl.server.http.open_requests import OpenHttpRequests
from mlxctl.server.http.rate_limits import admit
from mlxctl.server.http.stream import PendingAnswers, stream_answer, stream_when_started
from mlxctl.server.policy.caller import allowed_models, with_caller
from mlxctl.server.policy.decisions import decide
from mlxctl.state.settings import ServerSettings

FormatterType = TypeVar("FormatterType", bound=Formatter)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedRequest:
    """A parsed body and whether it streams.

    `request` returns the whole request; while it waits, a stream sends pings.
    """

    stream: bool
    request: Callable[[], Awaitable[PackedRequest]]

    @classmethod
    def at_once(cls, request: PackedRequest) -> "ParsedRequest":
        """Return a request that needs nothing but its body."""

        async def itself() -> PackedRequest:
            return request

        return cls(stream=request.head.stream, request=itself)


class GenerationResource(Generic[FormatterType]):
    """Parses a request, starts it, and answers whole or streamed.

    Protocols whose requests refer to stored data override `parse`, `started` and `ended`, those whose answers
    describe the model or set its time to live `named`; one whose streams are no server-sent events overrides
    `stream_media_type`.
    """

    stream_media_type = "text/event-stream"

    def __init__(
        self,
        inference: InferenceService,
        create_formatter: Callable[..., FormatterType],
        open_requests: OpenHttpRequests,
        settings: ServerSettings,
    ) -> None:
        self._inference = inference
        self._create_formatter = create_formatter
        self._open_requests = open_requests
        self._settings = settings
        self._dropped_tools_log = DroppedToolsLog()

    async def parse(
        self,
        formatter: FormatterType,
        body: bytes | bytearray,
        request: Request,  # noqa: ARG002
    ) -> ParsedRequest:
        """Parse the body. Raises RequestError, CapacityError, as does the returned request."""
        return ParsedRequest.at_once(await self._inference.preparation.parse_with(formatter, "parse", body))

    async def named(self, formatter: FormatterType, model: str, request: Request) -> None:
        """Called with the name of the model before it is loaded."""

    def started(self, formatter: FormatterType, sampling: SamplingParams, request: Request) -> None:
        """Called when the final sampling parameters are known."""

    async def ended(self, formatter: FormatterType, request: Request) -> None:
        """Called when the answer is complete, before its end is sent."""

    async def respond_without_generation(
        self,
        formatter: FormatterType,  # noqa: ARG002
        parsed: ParsedRequest,  # noqa: ARG002
        request: Request,  # noqa: ARG002
        response: Response,  # noqa: ARG002
    ) -> bool:
        """Answer a request that generates nothing; return whether it was one."""
        return False

    async def on_post(self, request: Request, response: Response, **names: str) -> None:
        """Answer a request; `names` are the path parameters, for the formatter.

        The generation starts before the first byte is sent, so that errors have a status. Only a stream that
        has not started after the ping interval (model loading, queueing) begins with pings.
        """
        self._open_requests.enter(request.scope)
        deadline = deadline_of(request, self._settings)
        formatter = self._create_formatter(**names)
        body = await read_body(request, limit_bytes=self._settings.max_body_bytes)
        async with deadline.limit():
            parsed = await self.parse(formatter, body, request)
            if await self.respond_without_generation(formatter, parsed, request, response):
                return
            starting = self._start(parsed, formatter, request, response)
            if not parsed.stream:
                answers = await starting
                call_at_end(request.scope, answers.cancel)
                self.started(formatter, answers.sampling, request)
                results = await answers.results()
                with timed("format"):
                    response.data = formatter.whole(*results)
                response.content_type = falcon.MEDIA_JSON
                await self.ended(formatter, request)
                return
            start = PendingAnswers(starting)
            call_at_end(request.scope, start.cancel)
            stream = partial(self._stream, formatter=formatter, request=request, deadline=deadline)
            chunks = await self._stream_of(start, formatter, stream, deadline)
        response.content_type = self.stream_media_type
        response.set_headers({"cache-control": "no-cache", "x-accel-buffering": "no"})
        response.stream = chunks

    async def _start(
        self, parsed: ParsedRequest, formatter: FormatterType, request: Request, response: Response
    ) -> Answers:
        whole, allowed = with_caller(await parsed.request(), request), allowed_models(request)
        name = await self._inference.answering_model(whole.head.model, allowed)
        if name != whole.head.model:
            whole = whole.with_head(model=name)
            formatter.set_model(name)
        await self.named(formatter, name, request)
        head = whole.head
        model = self._inference.manager.own_name(name)
        # Before documents are read and guardrails search long texts.
        admit(request, response, model, max_tokens=(head.max_tokens or 0) * head.num_choices)
        self._dropped_tools_log.warn_once(formatter.dropped_tools)
        if request.context.policy.opa is not None:
            record: RequestContext = request.context.record
            record.review = partial(decide, request)
        return await self._inference.generate_all(whole, allowed)

    async def _stream_of(
        self,
        start: PendingAnswers,
        formatter: FormatterType,
        stream: Callable[[Answers], AsyncGenerator[bytes, None]],
        deadline: Deadline,
    ) -> AsyncGenerator[bytes, None]:
        seconds = self._settings.ping_interval_seconds
        if answers := await start.answers_within(seconds):
            return stream(answers)
        return stream_when_started(
            start, formatter, stream=stream, ping_interval_seconds=seconds, deadline=deadline
        )

    def _stream(
        self, answers: Answers, *, formatter: FormatterType, request: Request, deadline: Deadline
    ) -> AsyncGenerator[bytes, None]:
        self.started(formatter, answers.sampling, request)
        return stream_answer(
            answers,
            formatter,
            ping_interval_seconds=self._settings.ping_interval_seconds,
            deadline=deadline,
            before_end=partial(self.ended, formatter, request),
        )
