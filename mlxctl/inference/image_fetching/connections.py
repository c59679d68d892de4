"""Connections to checked addresses only.

SEC: the address that was checked is the one that is connected to, so a name that resolves to another address
the next time (DNS rebinding) changes nothing. One forbidden address among several refuses the name.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpcore

from mlxctl.inference.image_fetching.address_rules import AddressRules

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the addresses of a host, as `Resolver.resolve` does."""

_MAX_THREADS = 8
_MAX_ADDRESSES = 4
# Parsing what one read returns blocks the event loop, and it may be thousands of tiny parts.
_READ_BYTES = 8 * 1024


class AddressRefused(OSError):
    """A host with an address that may not be fetched from."""


class Resolver:
    """Looks up host names in threads of its own.

    A slow name server holds up nothing else.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_MAX_THREADS, thread_name_prefix="resolver")

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses of a host. Raises OSError."""
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._threads, _addresses, host, port)
        return list(dict.fromkeys(found))

    def close(self) -> None:
        """Let the threads end. Idempotent."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _addresses(host: str, port: int) -> list[str]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError(str(error)) from None
    return [str(address[0]) for *_, address in found]


class BoundedStream(httpcore.AsyncNetworkStream):
    """Reads a little at a time, and at most `max_bytes`."""

    def __init__(self, stream: httpcore.AsyncNetworkStream, *, max_bytes: int) -> None:
        self._stream = stream
        self._num_bytes_left = max_bytes

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        """Return bytes that have arrived. Raises httpcore.ReadError after too many."""
        found = await self._stream.read(min(max_bytes, _READ_BYTES), timeout)
        self._num_bytes_left -= len(found)
        if self._num_bytes_left < 0:
            raise httpcore.ReadError("the answer has too many bytes around its content")
        return found

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Send bytes."""
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        """Close the connection."""
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> httpcore.AsyncNetworkStream:
        """Return the encrypted connection, with the same bounds."""
        encrypted = await self._stream.start_tls(ssl_context, server_hostname, timeout)
        return BoundedStream(encrypted, max_bytes=self._num_bytes_left)

    def get_extra_info(self, info: str) -> Any:
        """Return a fact about the connection."""
        return self._stream.get_extra_info(info)


class CheckedConnections(httpcore.AsyncNetworkBackend):
    """Opens the connections of httpcore, to addresses that the rules allow."""

    def __init__(self, rules: AddressRules, resolve: Resolve, *, max_bytes: int) -> None:
        """`max_bytes` is what may be received over a connection."""
        self._rules = rules
        self._resolve = resolve
        self._max_bytes = max_bytes
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 -- httpcore's interface
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to the first address that answers. Raises AddressRefused, OSError, httpcore errors."""
        addresses = await self._resolve(host, port)
        if not addresses:
            raise OSError("the host has no address")
        if not all(map(self._rules.allows, addresses)):
            raise AddressRefused
        failure: Exception | None = None
        for address in addresses[:_MAX_ADDRESSES]:
            try:
                stream = await self._network.connect_tcp(
                    address, port, timeout, local_address, socket_options
                )
            except (httpcore.NetworkError, httpcore.TimeoutException) as error:
                failure = error
                continue
            return await self._checked(stream)
        assert failure is not None
        raise failure

    async def connect_unix_socket(self, *_: Any, **__: Any) -> httpcore.AsyncNetworkStream:
        """Refuse a Unix socket. Raises AddressRefused."""
        raise AddressRefused

    async def sleep(self, seconds: float) -> None:
        """Wait before a retry."""
        await asyncio.sleep(seconds)

    async def _checked(self, stream: httpcore.AsyncNetworkStream) -> httpcore.AsyncNetworkStream:
        peer = stream.get_extra_info("server_addr")
        if not (isinstance(peer, tuple) and self._rules.allows(str(peer[0]))):
            await stream.aclose()
            raise AddressRefused
        return BoundedStream(stream, max_bytes=self._max_bytes)


def connection_pool(
    rules: AddressRules, resolve: Resolve, tls: ssl.SSLContext, *, max_bytes: int
) -> httpcore.AsyncConnectionPool:
    """Return a pool for one download.

    It keeps no connections, cookies or credentials, and uses no proxy of the environment.
    """
    return httpcore.AsyncConnectionPool(
        ssl_context=tls,
        max_connections=1,
        max_keepalive_connections=0,
        network_backend=CheckedConnections(rules, resolve, max_bytes=max_bytes),
    )
