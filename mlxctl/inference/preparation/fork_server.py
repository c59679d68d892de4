"""The process that all workers are forks of. Event-loop thread only.

Slow or risky commands, such as reading a tokenizer, run in a fork, which replaces the fork server when it has
succeeded. So the files of a model can break a fork, but never the fork server.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from mlxctl.engine.client.child_process import start_child
from mlxctl.inference.preparation.frames import connected_pair
from mlxctl.inference.preparation.limits import LOAD_SECONDS
from mlxctl.inference.preparation.messages import Fork
from mlxctl.inference.preparation.worker import Worker, WorkerEnded

_EXIT_SECONDS = 5.0


class ForkServer:
    """Starts at first use, and again when it was lost.

    `generation` grows with every replacement.
    """

    def __init__(self, modules: Sequence[str]) -> None:
        """`modules` are imported before forking."""
        self.generation = 0
        self._modules = modules
        self._process: subprocess.Popen[bytes] | None = None
        self._worker: Worker | None = None
        self._changing = asyncio.Lock()
        self._forking = asyncio.Lock()

    @property
    def is_running(self) -> bool:
        """Whether the process runs, as far as is known."""
        return self._worker is not None and not self._worker.has_ended

    async def start(self) -> None:
        """Start a new process without models. Raises WorkerEnded."""
        await self.close()
        ours, theirs = connected_pair()
        with theirs:
            command = [
                sys.executable,
                "-m",
                "mlxctl.inference.preparation.process",
                str(theirs.fileno()),
                *self._modules,
            ]
            # It returns when the program was found, and does not wait for it.
            # macOS kills forks that use Objective-C, which some libraries do at import.
            environment = {**os.environ, "OBJC_DISABLE_INITIALIZE_FORK_SAFETY": "YES"}
            self._process = start_child(command, pass_fds=[theirs.fileno()], environment=environment)
        self.generation += 1
        self._worker = Worker(ours, generation=self.generation)
        await self._worker.begin()

    async def fork(self, *, niceness: int) -> Worker:
        """Return a new worker with all models and answers. Raises WorkerEnded."""
        async with self._forking:
            server = self._worker
            if server is None or server.has_ended:
                raise WorkerEnded("the fork server of the preparation processes has ended")
            ours, theirs = connected_pair()
            with theirs:
                forked = Worker(ours, generation=server.generation)
                forked.num_answers_sent = dict(server.num_answers_sent)
                try:
                    await server.send_command(Fork(niceness=niceness), theirs.fileno())
                except BaseException:
                    forked.end()
                    raise
        await forked.begin()
        return forked

    async def execute_and_replace(self, command: object) -> Any:
        """Execute a command in a fork, which then becomes the fork server.

        Raises what `Worker.execute` does, and TimeoutError after LOAD_SECONDS.
        """
        async with self._changing:
            forked = await self.fork(niceness=0)
            try:
                async with asyncio.timeout(LOAD_SECONDS):
                    value = await forked.execute(command)
                await self._forking.acquire()
            except BaseException:
                forked.kill()
                raise
            if self._worker is not None:
                self._worker.end()
            self.generation += 1
            forked.generation = self.generation
            self._worker = forked
            self._forking.release()
            self._reap()
            return value

    async def send_command(self, command: object) -> None:
        """Send a command without reply. Raises WorkerEnded."""
        async with self._forking:
            if self._worker is not None:
                await self._worker.send_command(command)

    @property
    def num_answers_sent(self) -> dict[int, int]:
        """Number of answer segments that the process has, by the model's number."""
        return self._worker.num_answers_sent if self._worker is not None else {}

    async def close(self) -> None:
        """Stop the process that forks."""
        if self._worker is not None:
            self._worker.kill()
            self._worker = None
        if self._process is not None:
            process, self._process = self._process, None
            await asyncio.to_thread(_wait, process)

    def _reap(self) -> None:
        if self._process is not None and self._process.poll() is not None:
            self._process = None


def _wait(process: "subprocess.Popen[bytes]") -> None:
    try:
        process.wait(_EXIT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
