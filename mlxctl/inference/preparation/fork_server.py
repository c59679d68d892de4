"""The process that all others are forks of, and that has read every model's tokenizer.

Event-loop thread only.

What may take long, or never come to an end, is done in a fork, which takes the template's place when it has
succeeded. So the files of a model cannot break the template: they break a fork of it.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from mlxctl.inference.preparation.frames import connected_pair
from mlxctl.inference.preparation.limits import LOAD_SECONDS
from mlxctl.inference.preparation.messages import Fork
from mlxctl.inference.preparation.worker import Worker, WorkerEnded

_EXIT_SECONDS = 5.0


class ForkServer:
    """Started when first needed, and again when it was lost.

    `generation` grows with every change of what forks know.
    """

    def __init__(self, modules: Sequence[str]) -> None:
        """Forks have imported `modules`."""
        self.generation = 0
        self._modules = modules
        self._process: subprocess.Popen[bytes] | None = None
        self._worker: Worker | None = None
        self._changing = asyncio.Lock()
        self._forking = asyncio.Lock()

    @property
    def is_running(self) -> bool:
        """Whether it runs, as far as is known."""
        return self._worker is not None and not self._worker.has_ended

    async def start(self) -> None:
        """Start it anew, knowing nothing. Raises WorkerEnded."""
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
            # It returns once the program was found; what it does then is not waited for.
            # macOS ends forks that touch Objective-C, which some libraries do when they are imported.
            environment = {**os.environ, "OBJC_DISABLE_INITIALIZE_FORK_SAFETY": "YES"}
            self._process = subprocess.Popen(  # noqa: S603, ASYNC220
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=environment,
            )
        self.generation += 1
        self._worker = Worker(ours, generation=self.generation)
        await self._worker.begin()

    async def fork(self, *, niceness: int) -> Worker:
        """Return a new process that knows all that the template knows. Raises WorkerEnded."""
        async with self._forking:
            template = self._worker
            if template is None or template.has_ended:
                raise WorkerEnded("the template of the preparation processes has ended")
            ours, theirs = connected_pair()
            with theirs:
                forked = Worker(ours, generation=template.generation)
                forked.num_answers_sent = dict(template.num_answers_sent)
                try:
                    await template.tell(Fork(niceness=niceness), theirs.fileno())
                except BaseException:
                    forked.end()
                    raise
        await forked.begin()
        return forked

    async def change(self, command: object) -> Any:
        """Have a fork do something that later ones are to know, and put it in the template's place.

        Raises what `Worker.ask` does.

        Raises TimeoutError when that takes longer than LOAD_SECONDS.
        """
        async with self._changing:
            forked = await self.fork(niceness=0)
            try:
                async with asyncio.timeout(LOAD_SECONDS):
                    value = await forked.ask(command)
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

    async def tell(self, command: object) -> None:
        """Say something that later forks are to know, too. Raises WorkerEnded."""
        async with self._forking:
            if self._worker is not None:
                await self._worker.tell(command)

    @property
    def num_answers_sent(self) -> dict[int, int]:
        """How many answers of each model it was told of, by the model's number."""
        return self._worker.num_answers_sent if self._worker is not None else {}

    async def close(self) -> None:
        """End it."""
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
