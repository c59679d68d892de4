"""A preparation process: `python -m mlxctl.inference.preparation.process DESCRIPTOR [MODULE ...]`.

Started by `template`.

It does one thing after another, as it is told, until the socket is closed. Every one of them is the same
program: the template is the one that is only ever told to fork, a worker is told to call functions. None has
threads, so that each may fork.
"""

import gc
import importlib
import os
import resource
import signal
import socket
import sys
import traceback
from typing import Any

from mlxctl.adapters import ModelAdapter, create_adapter
from mlxctl.errors import MlxctlError
from mlxctl.inference.preparation.frames import ConnectionEnded, receive, send
from mlxctl.inference.preparation.limits import MAX_COMMAND_SECONDS
from mlxctl.inference.preparation.messages import (
    Call,
    Crashed,
    Done,
    Forget,
    Fork,
    Learn,
    Load,
    Raised,
    ReadGrammarVocabulary,
    Started,
)


class PreparationProcess:
    """One process; `serve` returns when its socket is closed."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._adapters: dict[str, ModelAdapter] = {}

    def serve(self) -> None:
        """Do as told until the front is gone."""
        self._report_started()
        while True:
            try:
                command, descriptor = receive(self._connection)
                self._execute(command, descriptor)
            except (ConnectionEnded, OSError):
                return
            # What a command has brought is not needed while the next one is waited for.
            del command

    def _execute(self, command: object, descriptor: int | None) -> None:
        match command:
            case Fork(niceness=niceness):
                assert descriptor is not None, "a fork comes with its socket"
                self._fork(socket.socket(fileno=descriptor), niceness)
            case Forget(name=name):
                self._adapters.pop(name, None)
            case Learn(name=name, segments=segments):
                if name in self._adapters:
                    self._adapters[name].store_segments(segments)
            case _:
                self._reply(command)

    def _reply(self, command: object) -> None:
        # Whatever it does, even a library that never returns: the system ends a process that handles neither
        # of these signals.
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
            case ReadGrammarVocabulary(name=name):
                if name in self._adapters:
                    self._adapters[name].read_grammar_vocabulary()
                return None
        raise AssertionError(f"no command: {command!r}")

    def _fork(self, connection: socket.socket, niceness: int) -> None:
        # PERF: what is there by now is looked at by no collection, and so stays shared.
        gc.freeze()
        if os.fork():
            connection.close()
            return
        self._connection.close()
        self._connection = connection
        os.nice(niceness)
        # A library that panics says so to a person who can do nothing about it; the front says it to the
        # client.
        with open(os.devnull, "wb") as nowhere:  # noqa: PTH123
            os.dup2(nowhere.fileno(), 2)
        self._report_started()

    def _report_started(self) -> None:
        send(self._connection, Started(pid=os.getpid(), memory_bytes=memory_bytes()))


def memory_bytes() -> int:
    """Return the most memory that this process ever had."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def main(descriptor: str, *modules: str) -> None:
    """Serve the socket with this number until it is closed; forks need not import `modules` again."""
    # The terminal and service managers signal the whole group; the front decides when this ends.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # Forks are reaped by the system.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # PERF: what a large body becomes is no garbage, and looking through it again and again takes as long as
    # to make it.
    gc.set_threshold(100_000, 20, 100)
    # A thread would not survive a fork, and what it has locked would stay locked.
    os.environ.update({"TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1"})
    for module in modules:
        importlib.import_module(module)
    PreparationProcess(socket.socket(fileno=int(descriptor))).serve()


if __name__ == "__main__":
    main(*sys.argv[1:])
