"""A preparation process: `python -m mlxctl.inference.preparation.process DESCRIPTOR [MODULE ...]`.

Executes one command after another until its socket is closed. The fork server and the workers run the same
program: the former gets commands to fork, the latter calls. It has no threads, because it forks.
"""

import gc
import importlib
import os
import resource
import signal
import socket
import sys
import traceback
from contextlib import suppress
from typing import Any

from mlxctl.formats.adapters import ModelAdapter, create_adapter
from mlxctl.inference.preparation.frames import ConnectionEnded, receive, send
from mlxctl.inference.preparation.limits import MAX_COMMAND_SECONDS
from mlxctl.inference.preparation.messages import (
    Call,
    Crashed,
    Done,
    DropAdapter,
    Fork,
    Load,
    LoadGrammarVocabulary,
    Raised,
    Started,
    StoreAnswers,
)
from mlxctl.ir.errors import MlxctlError


class PreparationProcess:
    """One process; `serve` returns when its socket is closed."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._adapters: dict[str, ModelAdapter] = {}

    def serve(self) -> None:
        """Execute commands until the front closes the connection."""
        with suppress(ConnectionEnded, OSError):
            self._report_started()
            while True:
                command, descriptor = receive(self._connection)
                self._execute(command, descriptor)
                # Free the command before waiting for the next one.
                del command

    def _execute(self, command: object, descriptor: int | None) -> None:
        match command:
            case Fork(niceness=niceness):
                assert descriptor is not None, "a Fork command comes with a socket"
                self._fork(socket.socket(fileno=descriptor), niceness)
            case DropAdapter(name=name):
                self._adapters.pop(name, None)
            case StoreAnswers(name=name, segments=segments):
                if name in self._adapters:
                    self._adapters[name].store_segments(segments)
            case _:
                self._reply(command)

    def _reply(self, command: object) -> None:
        # The system kills a process that handles neither signal, also inside a library that never returns.
        signal.setitimer(signal.ITIMER_REAL, MAX_COMMAND_SECONDS)
        if isinstance(command, Call):
            signal.setitimer(signal.ITIMER_PROF, command.cpu_seconds)
        try:
            answer: object = Done(value=self._value(command), memory_bytes=memory_bytes())
        except MlxctlError as error:
            answer = Raised.of(error)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic of a native library is no Exception
            answer = Crashed(
                reason=f"{type(error).__name__}: {error}"[:500],
                traceback="".join(traceback.format_exception(error, limit=-20)),
                is_native=not isinstance(error, Exception),
            )
        signal.setitimer(signal.ITIMER_PROF, 0)
        send(self._connection, answer)
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _value(self, command: object) -> Any:
        match command:
            case Call(function=function, arguments=arguments, model=None):
                return function(*arguments)
            case Call(function=function, arguments=arguments, model=str(model)):
                return function(self._adapters[model], *arguments)
            case Load(name=name, facts=facts):
                adapter = self._adapters[name] = create_adapter(
                    facts,
                    name=name,
                    capabilities=command.capabilities,
                    request_defaults=command.request_defaults,
                )
                return adapter.reader()
            case LoadGrammarVocabulary(name=name):
                if name in self._adapters:
                    self._adapters[name].read_grammar_vocabulary()
                return None
        raise AssertionError(f"no command: {command!r}")

    def _fork(self, connection: socket.socket, niceness: int) -> None:
        # PERF: objects so far are exempt from collections, so that their memory stays shared.
        gc.freeze()
        if os.fork():
            connection.close()
            return
        self._connection.close()
        self._connection = connection
        os.nice(niceness)
        # Panics of libraries are reported to the client by the front, not on stderr.
        with open(os.devnull, "wb") as nowhere:  # noqa: PTH123
            os.dup2(nowhere.fileno(), 2)
        self._report_started()

    def _report_started(self) -> None:
        send(self._connection, Started(pid=os.getpid(), memory_bytes=memory_bytes()))


def memory_bytes() -> int:
    """Return the peak memory of this process."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def main(descriptor: str, *modules: str) -> None:
    """Import `modules`, then serve the socket until it is closed."""
    # Terminals and service managers signal the whole group; the front decides when this process ends.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # The system reaps forks.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # PERF: objects of a large body are no garbage, and collections take as long as its parsing.
    gc.set_threshold(100_000, 20, 100)
    # Threads do not survive a fork, and their locks would stay locked.
    os.environ.update({"TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1"})
    for module in modules:
        importlib.import_module(module)
    PreparationProcess(socket.socket(fileno=int(descriptor))).serve()


if __name__ == "__main__":
    main(*sys.argv[1:])
