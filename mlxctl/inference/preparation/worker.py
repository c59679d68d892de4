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
    """The process has ended, with its command."""


class WorkerCrashed(Exception):
    """The process or a library failed unexpectedly.

    It must not be used again. `is_native` is a panic of a native library.
    """

    def __init__(self, failed: Crashed) -> None:
        super().__init__(f"{failed.reason}\n{failed.traceback}")
        self.reason = failed.reason
        self.is_native = failed.is_native


class Worker:
    """One process, which executes one command at a time.

    `generation` is that of the fork server that it was forked from.
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
        """Wait until the process has started. Raises WorkerEnded."""
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

    async def execute(self, command: object) -> Any:
        """Send a command and return its result.

        Raises the command's MlxctlError, WorkerCrashed, WorkerEnded.
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

    async def send_command(self, command: object, descriptor: int | None = None) -> None:
        """Send a command without reply, with a file descriptor if given.

        Raises WorkerEnded.
        """
        parts = encode(command)
        try:
            if descriptor is None:
                await send_async(self._connection, parts)
            else:
                # The few bytes fit into the socket buffer: the fork server has no other command pending.
                socket.send_fds(self._connection, [b"".join(parts)], [descriptor])
        except OSError as error:
            self.end()
            raise WorkerEnded("a preparation process has ended") from error

    @property
    def has_grown(self) -> bool:
        """Whether its memory has grown by more than GROWTH_BYTES."""
        return self._last_bytes > self._first_bytes + GROWTH_BYTES

    @property
    def has_ended(self) -> bool:
        """Whether the connection is closed."""
        return self._connection.fileno() < 0

    def end(self) -> None:
        """Close the connection; the process ends after its command. Idempotent."""
        self._connection.close()

    def kill(self) -> None:
        """Kill the process at once. Idempotent."""
        if not self.has_ended and self._pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
        self.end()
