"""Preparation processes of hosted servers, all forked from one.

Starting Python and importing the preparation takes a second of CPU time, which each server would spend.
"""

import atexit
import functools
import os
import socket
import sys

from mlxctl.engine.client.child_process import start_child
from mlxctl.inference.preparation.fork_server import ForkServer
from mlxctl.inference.preparation.frames import connected_pair, encode, receive
from mlxctl.inference.preparation.messages import Fork
from mlxctl.inference.preparation.worker import Worker


class SharedForkServer(ForkServer):
    """A fork of a process that has imported the modules."""

    async def start(self) -> None:
        await self.close()
        ours, theirs = connected_pair()
        with theirs:
            fork = b"".join(encode(Fork(niceness=0)))
            socket.send_fds(_imported(*self._modules), [fork], [theirs.fileno()])
        self.generation += 1
        self._worker = Worker(ours, generation=self.generation)
        await self._worker.begin()


@functools.cache
def _imported(*modules: str) -> socket.socket:
    """Return the connection to a process that forks, which ends with it."""
    ours, theirs = connected_pair()
    with theirs:
        program = [sys.executable, "-m", "mlxctl.inference.preparation.process"]
        environment = {**os.environ, "OBJC_DISABLE_INITIALIZE_FORK_SAFETY": "YES"}
        descriptor = theirs.fileno()
        process = start_child(
            [*program, str(descriptor), *modules], pass_fds=[descriptor], environment=environment
        )
    receive(ours)
    atexit.register(process.wait)
    atexit.register(ours.close)
    return ours
