"""Granian, embedded: HTTP/1.1 in this process and on this event loop, in one place."""

import asyncio
import resource
import sys
from collections.abc import Callable

from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server.embed import Server

from mlxctl.errors import SettingsError
from mlxctl.server.address import Address
from mlxctl.server.disconnect import Application
from mlxctl.settings import ServerSettings

# A connection waits here when this many are open; it is not a limit on requests, which is `max_queue`.
_MAX_CONNECTIONS = 4096
_STOP_SECONDS = 2.0


class Listener:
    """Serves `application` at `address` from `start` to `stop`. Both belong to the event loop's thread."""

    def __init__(self, application: Application, address: Address, settings: ServerSettings) -> None:
        # Its errors go to our log; below that it would only warn on each start that embedding is
        # experimental.
        self._server = Server(
            application,
            address=address.ip,
            port=address.port,
            interface=Interfaces.ASGINL,
            http=HTTPModes.http1,
            http1_settings=HTTP1Settings(max_buffer_size=settings.max_header_bytes),
            websockets=False,
            backlog=_MAX_CONNECTIONS,
            backpressure=_MAX_CONNECTIONS,
            log_level=LogLevels.error,
            log_dictconfig={"loggers": {"_granian": {"propagate": True}}},
        )
        self._address = address
        self._task: asyncio.Task[None] | None = None

    @property
    def has_ended(self) -> bool:
        """Whether listening has ended."""
        return self._task is not None and self._task.done()

    async def start(self, *, on_end: Callable[[], None]) -> None:
        """Begin to listen; raises SettingsError if that fails.

        `on_lost` is called when listening ends, wanted or not.
        """
        _raise_file_limit()
        self._task = asyncio.create_task(self._server.serve(), name="listener")
        # The socket is opened in the task's first step.
        await asyncio.sleep(0)
        if self._task.done():
            reason = str(self._task.exception()).partition("\n")[0]
            raise SettingsError(f"cannot listen on {self._address.ip} port {self._address.port}: {reason}")
        self._task.add_done_callback(lambda _: on_end())

    async def stop(self) -> None:
        """Close the door; what is still open after a moment is dropped."""
        assert self._task is not None, "stop comes after start"
        self._server.stop()  # type: ignore[no-untyped-call]
        await asyncio.wait({self._task}, timeout=_STOP_SECONDS)


def _raise_file_limit() -> None:
    """Let this process hold as many connections as it may: macOS starts programs with 256 files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * _MAX_CONNECTIONS if hard == resource.RLIM_INFINITY else min(hard, 2 * _MAX_CONNECTIONS)
    if sys.platform == "darwin":
        wanted = min(wanted, 10240)  # OPEN_MAX: macOS refuses more however high the hard limit is
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
