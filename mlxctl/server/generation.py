"""The one resource that generates.

Mounted once per protocol, it knows none: a factory makes the formatter.
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
from mlxctl.ir import SamplingParams
from mlxctl.protocols import Formatter
from mlxctl.server.body import read_body
from mlxctl.server.caller import with_caller
from mlxctl.server.deadline import Deadline
from mlxctl.server.disconnect import call_at_end
from mlxctl.server.open_requests import OpenRequests
from mlxctl.server.pending_answers import PendingAnswers, stream_when_started
from mlxctl.server.stream import stream_answer
from mlxctl.settings import ServerSettings

FormatterType = TypeVar("FormatterType", bound=Formatter)


# Callers choose these names: so many of them, and so much of each, get into the log.
_MOST_TYPES = 64
_MOST_CHARS = 64

_log = logging.getLogger(__name__)


class DroppedToolsLog:
    """Says of each type once that it is left out. Event-loop thread only."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def tell(self, types: Iterable[str]) -> None:
        """Log the types that were not told before."""
        for name in (kind[:_MOST_CHARS] for kind in types):
            if name not in self._told and len(self._told) < _MOST_TYPES:
                self._told.add(name)
                _log.warning("left out of requests from now on, since only its maker can run it: %r", name)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedRequest:
    """What a body asks for.

    `request` returns all of it; where that means to wait, a stream says meanwhile that it lives.
    """

    stream: bool
    request: Callable[[], Awaitable[PackedRequest]]

    @classmethod
    def at_once(cls, request: PackedRequest) -> "ParsedRequest":
        """Return what needs nothing but its body."""

        async def itself() -> PackedRequest:
            return request

        return cls(stream=request.head.stream, request=itself)


class GenerationResource(Generic[FormatterType]):
    """Reads a request, starts it, and answers whole or as a stream. Raises what went wrong; others render it.

    A protocol whose requests refer to something says so by overriding `parse`, `started` and `ended`.
    """

    def __init__(
        self,
        inference: InferenceService,
        create_formatter: Callable[..., FormatterType],
        open_requests: OpenRequests,
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
        """Read the body. Raises RequestError, CapacityError; so does the request that it returns."""
        return ParsedRequest.at_once(await self._inference.preparation.parse_with(formatter, "parse", body))

    def started(self, formatter: FormatterType, sampling: SamplingParams) -> None:
        """It is known how the answer will be sampled."""

    async def ended(self, formatter: FormatterType, caller: str) -> None:
        """The answer is complete, but its end was not sent yet."""

    async def on_post(self, request: Request, response: Response, **names: str) -> None:
        """Answer one request; `names` are those in its address, for the formatter.

        The generation starts before the first byte is sent, so that a refusal has a real status. Only a
        stream that takes longer to start than a client may be left in silence, because its model is loaded
        first or its turn has to come, begins with pings.
        """
        self._open_requests.enter(request.scope)
        deadline = Deadline(self._settings.request_timeout_seconds)
        formatter = self._create_formatter(**names)
        caller: str = request.context.caller
        body = await read_body(request, limit_bytes=self._settings.max_body_bytes)
        async with deadline.limit():
            asked = await self.parse(formatter, body, request)
            starting = self._start(asked, formatter, request)
            if not asked.stream:
                answers = await starting
                call_at_end(request.scope, answers.cancel)
                self.started(formatter, answers.sampling)
                response.data = formatter.whole(*await answers.results())
                response.content_type = falcon.MEDIA_JSON
                await self.ended(formatter, caller)
                return
            start = PendingAnswers(starting)
            call_at_end(request.scope, start.cancel)
            stream = partial(self._stream, formatter=formatter, caller=caller, deadline=deadline)
            chunks = await self._stream_of(start, formatter, stream, deadline)
        response.content_type = "text/event-stream"
        response.set_headers({"cache-control": "no-cache", "x-accel-buffering": "no"})
        response.stream = chunks

    async def _start(self, asked: ParsedRequest, formatter: FormatterType, request: Request) -> Answers:
        whole = with_caller(await asked.request(), request)
        self._dropped_tools_log.tell(formatter.dropped_tools)
        return await self._inference.generate_all(whole)

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
        self, answers: Answers, *, formatter: FormatterType, caller: str, deadline: Deadline
    ) -> AsyncGenerator[bytes, None]:
        self.started(formatter, answers.sampling)
        return stream_answer(
            answers,
            formatter,
            ping_interval_seconds=self._settings.ping_interval_seconds,
            deadline=deadline,
            before_end=partial(self.ended, formatter, caller),
        )
