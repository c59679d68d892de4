"""Granian as an embedded HTTP/1.1 server on this event loop."""

import asyncio
import gc
import os
import resource
import socket
import ssl
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import urlsplit

from granian.constants import HTTPModes, Interfaces, SSLProtocols
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.net import SocketSpec  # type: ignore[attr-defined]
from granian.server.embed import Server

from mlxctl.ir.errors import SettingsError
from mlxctl.server.http.address import Address
from mlxctl.server.http.disconnect import Application
from mlxctl.server.http.socket_places import SHARE_OF_FILES
from mlxctl.state.settings import ServerSettings

# Further connections wait. The limit on requests is `max_queue`.
_MAX_CONNECTIONS = 4096
# Open files besides connections and WebSockets: databases, pipes, downloads; at most a quarter of all.
_OTHER_FILES = 256
_STOP_SECONDS = 2.0
_TLS_START_SECONDS = 30.0
_TLS_RETRY_SECONDS = 0.01
_POLL_SECONDS = 0.001
# Kernel buffer of unread data by connection: about 200 tokens of a stream. By default it grows to megabytes,
# and an answer that its client does not read would be computed whole.
_SEND_BUFFER_BYTES = 32 * 1024


class _Server(Server):
    """Granian's server with a bounded send buffer."""

    def _init_shared_socket(self) -> None:
        """Open the listening socket; connections inherit its send buffer."""
        holder = SocketSpec(self.bind_addr, self.bind_port, self.backlog).build()
        self._shd = holder  # type: ignore[assignment]
        with socket.socket(fileno=os.dup(holder.get_fd())) as listening:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)


class Listener:
    """Serves `application` at `address` from `start` to `stop`. Event-loop thread only."""

    def __init__(self, application: Application, address: Address, settings: ServerSettings) -> None:
        num_connections = _num_connections()
        # Errors go to our log; lower levels only warn at each start that embedding is experimental.
        self._server = _Server(
            application,
            address=address.ip,
            port=address.port,
            interface=Interfaces.ASGINL,
            http=HTTPModes.http1,
            http1_settings=HTTP1Settings(max_buffer_size=settings.max_header_bytes),
            websockets=True,
            backlog=_MAX_CONNECTIONS,
            backpressure=num_connections,
            ssl_cert=settings.tls_cert,
            ssl_key=settings.tls_key,
            ssl_protocol_min=SSLProtocols.tls13 if settings.tls_min_version == "1.3" else SSLProtocols.tls12,
            ssl_ca=settings.tls_client_ca,
            ssl_client_verify=settings.tls_client_ca is not None,
            log_level=LogLevels.error,
            # Otherwise Granian closes the handlers of all loggers.
            log_dictconfig={
                "incremental": True,
                "handlers": {},
                "loggers": {"_granian": {"propagate": True}},
            },
        )
        self._address = address
        self._task: asyncio.Task[None] | None = None
        self._other_threads: frozenset[int] = frozenset()

    @property
    def has_ended(self) -> bool:
        """Whether listening has ended."""
        return self._task is not None and self._task.done()

    async def start(self, *, on_end: Callable[[], None]) -> None:
        """Start to listen. Raises SettingsError.

        The TLS files have been read when this returns. `on_end` is called when listening ends for any reason.
        """
        self._other_threads = _native_threads()
        self._task = asyncio.create_task(self._server.serve(), name="listener")
        # The task opens the socket in its first step.
        await asyncio.sleep(0)
        if self._task.done():
            reason = str(self._task.exception()).partition("\n")[0]
            raise SettingsError(f"cannot listen on {self._address.ip} port {self._address.port}: {reason}")
        if self._address.scheme == "https":
            await self._wait_for_tls()
        else:
            await self._wait_for_accept()
        self._task.add_done_callback(lambda _: on_end())

    async def _wait_for_accept(self) -> None:
        """Wait until a connection is accepted.

        The socket is bound before Granian's thread listens to it.
        """
        host = urlsplit(self._address.url).hostname
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(_TLS_START_SECONDS):
                while True:
                    try:
                        _, writer = await asyncio.open_connection(host, self._address.port)
                    except ConnectionRefusedError:
                        await asyncio.sleep(_TLS_RETRY_SECONDS)
                        continue
                    writer.close()
                    return

    async def _wait_for_tls(self) -> None:
        """Wait for the first handshake. Raises SettingsError."""
        # Only a handshake shows that Granian's thread has read the files.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            async with asyncio.timeout(_TLS_START_SECONDS):
                while not await self._has_answered(context):  # noqa: ASYNC110 -- Granian has no event for it
                    await asyncio.sleep(_TLS_RETRY_SECONDS)
        except (OSError, TimeoutError) as error:
            reason = str(error) or "no answer"
            raise SettingsError(f"certificate or key cannot be used for TLS: {reason}") from None

    async def _has_answered(self, context: ssl.SSLContext) -> bool:
        """Return whether the server takes part in a handshake.

        Raises OSError if it never will.
        """
        host = urlsplit(self._address.url).hostname
        try:
            _, writer = await asyncio.open_connection(host, self._address.port, ssl=context)
        except ssl.SSLError:
            # The server wants a client certificate.
            return True
        except ConnectionRefusedError:
            if self.has_ended:
                raise
            return False
        writer.transport.abort()
        return True

    async def stop(self) -> None:
        """Stop listening; connections still open after a moment are dropped."""
        assert self._task is not None, "stop comes after start"
        if not self._task.done():
            # A thread that attaches later would not be waited for.
            await self._wait_for_threads(are_attached=True)
            self._server.stop()  # type: ignore[no-untyped-call]
            await asyncio.wait({self._task}, timeout=_STOP_SECONDS)
        # Ended requests in reference cycles keep the thread of callbacks alive.
        gc.collect()
        await self._wait_for_threads(are_attached=False)

    async def _wait_for_threads(self, *, are_attached: bool) -> None:
        """Wait until threads of Granian are attached to the interpreter, or none.

        At most _STOP_SECONDS. Granian does not join the thread of its callbacks, which panics if it wakes
        while the interpreter is finalized.
        """
        end = asyncio.get_running_loop().time() + _STOP_SECONDS
        while bool(_native_threads() - self._other_threads) is not are_attached:
            if asyncio.get_running_loop().time() >= end:
                return
            await asyncio.sleep(_POLL_SECONDS)


def _native_threads() -> frozenset[int]:
    """Return the ids of attached threads that Python did not start."""
    # It names every thread that has a state of the interpreter, also one without a Python frame.
    attached = frozenset(sys._current_exceptions())  # noqa: SLF001
    return attached - {thread.ident for thread in threading.enumerate()}


def _num_connections() -> int:
    """Return how many connections are accepted; raises the limit of open files.

    Without a free descriptor no connection would be accepted, and Granian would not say so.
    """
    _raise_file_limit()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    number = limit - limit // SHARE_OF_FILES - min(_OTHER_FILES, limit // 4)
    return min(number, _MAX_CONNECTIONS)


def _raise_file_limit() -> None:
    """Raise the limit of open files; macOS starts programs with 256."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * _MAX_CONNECTIONS if hard == resource.RLIM_INFINITY else min(hard, 2 * _MAX_CONNECTIONS)
    if sys.platform == "darwin":
        wanted = min(wanted, 10240)  # OPEN_MAX: macOS refuses more however high the hard limit is
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
