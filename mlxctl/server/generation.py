"""The one resource that generates. Mounted once per protocol, it knows none: a factory makes the formatter."""

import logging
from collections.abc import Callable
from dataclasses import replace

import falcon
from falcon.asgi import Request, Response

from mlxctl.inference import Answers, InferenceService
from mlxctl.protocols import Formatter
from mlxctl.server.body import read_body
from mlxctl.server.deadline import Deadline
from mlxctl.server.disconnect import call_at_end
from mlxctl.server.open_requests import OpenRequests
from mlxctl.server.stream import stream_answer
from mlxctl.settings import ServerSettings

_log = logging.getLogger(__name__)


class GenerationResource:
    """Reads a request, starts it, and answers whole or as a stream. Raises what went wrong; others render it."""

    def __init__(
        self,
        inference: InferenceService,
        create_formatter: Callable[[], Formatter],
        open_requests: OpenRequests,
        settings: ServerSettings,
    ) -> None:
        self._inference = inference
        self._create_formatter = create_formatter
        self._open_requests = open_requests
        self._settings = settings

    async def on_post(self, request: Request, response: Response) -> None:
        """Answer one request. The generation starts before the first byte is sent, so that a refusal has a real status."""
        self._open_requests.enter(request.scope)
        deadline = Deadline(self._settings.request_timeout_seconds)
        formatter = self._create_formatter()
        async with deadline.limit():
            asked = formatter.parse(await read_body(request, limit_bytes=self._settings.max_body_bytes))
            if formatter.dropped_tools:
                _log.debug("left out tools that only their maker can run: %s", ", ".join(formatter.dropped_tools))
            answers = await self._inference.start_all(replace(asked, fairness_key=request.context.caller))
            call_at_end(request.scope, answers.cancel)
            if not asked.stream:
                await _answer_whole(answers, formatter, response)
                return
        self._answer_as_stream(answers, formatter, response, deadline)

    def _answer_as_stream(self, answers: Answers, formatter: Formatter, response: Response, deadline: Deadline) -> None:
        response.content_type = "text/event-stream"
        response.set_headers({"cache-control": "no-cache", "x-accel-buffering": "no"})
        response.stream = stream_answer(
            answers, formatter, ping_interval_seconds=self._settings.ping_interval_seconds, deadline=deadline
        )


async def _answer_whole(answers: Answers, formatter: Formatter, response: Response) -> None:
    response.data = formatter.whole(*await answers.results())
    response.content_type = falcon.MEDIA_JSON
