"""The front's end of one preparation process. Event-loop thread only."""

import asyncio
import contextlib
import os
import signal
import socket
from typing import Any

from mlxctl.inference.preparation.frames import ConnectionEnded, encode, receive_async, send_async
from mlxctl.inference.preparation.limits import GROWTH_BYTES
from mlxctl.inference.preparation.messages import Crashed, Done, Raised, Started

_BEGIN_SECONDS = 30.0


class WorkerEnded(Exception):
    """The process is gone, and with it what it was asked."""


class WorkerCrashed(Exception):
    """The process made a mistake, or a library did; it is not to be used any more.

    `is_native` says that a library panicked.
    """

    def __init__(self, failed: Crashed) -> None:
        super().__init__(f"{failed.reason}\n{failed.traceback}")
        self.reason = failed.reason
        self.is_native = failed.is_native


class Worker:
    """One process: asked one thing at a time.

    `generation` is that of the template that it was forked from.
    """

    def __init__(self, connection: socket.socket, *, generation: int) -> None:
        connection.setblocking(False)
        self.generation = generation
        self.num_answers_sent: dict[int, int] = {}
        self._connection = connection
        self._pid: int | None = None
        self._first_bytes = 0
        self._last_bytes = 0

    async def begin(self) -> None:
        """Wait until it is there. Raises WorkerEnded."""
        try:
            async with asyncio.timeout(_BEGIN_SECONDS):
                begun: Started = await receive_async(self._connection)
        except (ConnectionEnded, OSError, TimeoutError) as error:
            self.end()
            raise WorkerEnded("a preparation process did not start") from error
        except BaseException:
            self.end()
            raise
        self._pid, self._first_bytes = begun.pid, begun.memory_bytes

    async def ask(self, command: object) -> Any:
        """Have something done and return what comes of it.

        Raises our own errors, WorkerFailed, WorkerEnded.
        """
        try:
            await send_async(self._connection, encode(command))
            answer: Done | Raised | Crashed = await receive_async(self._connection)
        except (ConnectionEnded, OSError) as error:
            self.end()
            raise WorkerEnded("a preparation process has ended") from error
        match answer:
            case Done(value=value, memory_bytes=memory_bytes):
                self._last_bytes = memory_bytes
                return value
            case Raised():
                raise answer.error()
            case Crashed():
                raise WorkerCrashed(answer)

    async def tell(self, command: object, descriptor: int | None = None) -> None:
        """Say something that has no answer, with a file descriptor if need be. Raises WorkerEnded."""
        parts = encode(command)
        try:
            if descriptor is None:
                await send_async(self._connection, parts)
            else:
                # So little always fits at once: nothing else is on its way to a process that is to fork.
                socket.send_fds(self._connection, [b"".join(parts)], [descriptor])
        except OSError as error:
            self.end()
            raise WorkerEnded("a preparation process has ended") from error

    @property
    def has_grown(self) -> bool:
        """Whether it holds so much more than at its beginning that another one does better."""
        return self._last_bytes > self._first_bytes + GROWTH_BYTES

    @property
    def has_ended(self) -> bool:
        """Whether it was ended, or has ended."""
        return self._connection.fileno() < 0

    def end(self) -> None:
        """Let it end by itself, when what it does is done. Idempotent."""
        self._connection.close()

    def kill(self) -> None:
        """End it at once, whatever it does. Idempotent."""
        if not self.has_ended and self._pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
        self.end()
