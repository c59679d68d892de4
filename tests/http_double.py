"""Runs a server of a test in a thread."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import TCPServer
from typing import TypeVar

Server = TypeVar("Server", bound=TCPServer)


@contextmanager
def running(server: Server) -> Iterator[Server]:
    """Yield the server while it answers requests."""
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
