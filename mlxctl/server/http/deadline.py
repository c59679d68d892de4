"""The deadline of a request, queueing included."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from falcon.asgi import Request

from mlxctl.inference.request_context import current_request
from mlxctl.ir.errors import DeadlineExceeded
from mlxctl.state.settings import Endpoint, ServerSettings

_VERSION = re.compile(r"/(?:(?:api/)?v\d+/)?")
# The first part of a route's path after its version.
_ENDPOINTS: dict[str, Endpoint] = {
    "chat": "chat",
    "completion": "completions",
    "infill": "completions",
    "responses": "responses",
    "messages": "messages",
    "agents": "agents",
    "embed": "embeddings",
    "rerank": "embeddings",
    "audio/": "transcriptions",
    "models/": "admin",
    "api/": "ollama",
}


def timeout_seconds(path: str, settings: ServerSettings) -> float:
    """Return the maximum duration of requests of a route, by its path."""
    path = _VERSION.sub("", path, count=1)
    endpoint = next((name for prefix, name in _ENDPOINTS.items() if path.startswith(prefix)), None)
    default = settings.request_timeout_seconds
    return default if endpoint is None else settings.timeouts.get(endpoint, default)


def deadline_of(request: Request, settings: ServerSettings) -> "Deadline":
    """Return the deadline of a request that begins now."""
    return Deadline(timeout_seconds(request.uri_template or "", settings))


class Deadline:
    """A deadline `seconds` after creation; `end` is in the event loop's time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self.end = self._loop.time() + seconds

    def check(self) -> None:
        """Raise DeadlineExceeded if the deadline has passed."""
        if self._loop.time() >= self.end:
            _mark_timed_out()
            raise DeadlineExceeded(f"the request exceeded the time limit of {self._seconds:g} seconds")

    @asynccontextmanager
    async def limit(self) -> AsyncIterator[None]:
        """Cancel the enclosed code at the deadline and raise DeadlineExceeded."""
        # The timer runs before the cancelled code ends its generations.
        timer = self._loop.call_at(self.end, _mark_timed_out)
        try:
            async with asyncio.timeout_at(self.end):
                yield
        except TimeoutError:
            self.check()
            raise
        finally:
            timer.cancel()


def _mark_timed_out() -> None:
    if (context := current_request.get()) is not None:
        context.mark_stopped("timed_out")
