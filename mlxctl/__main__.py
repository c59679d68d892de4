"""`mlxctl` and `python -m mlxctl`."""

import errno
import gc
import io
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from mlxctl.terminal_text import echo

_OBJECTS_BETWEEN_COLLECTIONS = 20_000
_INTERRUPTED = 130
_OUTPUT_ERRORS = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def main() -> None:
    """Run the command line."""
    # PERF: imported objects stay alive; repeated garbage collection takes a fifth of the start-up time.
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    _open_closed_streams()
    with (
        _escaping_stack_traces(),
        _reporting_full_output(),
        _reporting_missing_packages(),
        _ending_at_interrupt(),
    ):
        _run()


def _run() -> None:
    # An output that is not UTF-8, or the name of a file that is not, shows "?" instead of a stack trace.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    from mlxctl.cli import app

    # The package's first lines set it, for the imports.
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    app(prog_name="mlxctl")


def _open_closed_streams() -> None:
    """Point standard streams that the caller closed (`>&-`) to /dev/null.

    The next opened file would otherwise get the number of the closed stream, and the program's output would
    be written into it.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            # `os.open` returns the lowest free number, which is that of the closed stream.
            descriptor = os.open(os.devnull, os.O_RDWR)
            # Otherwise the engine's process would start without this stream.
            os.set_inheritable(descriptor, True)
            setattr(sys, name, os.fdopen(descriptor, "r" if name == "stdin" else "w"))


@contextmanager
def _escaping_stack_traces() -> Iterator[None]:
    """Print the stack trace of an unexpected error as Python does, escaped.

    SEC: its message may have text of a model or server.
    """
    try:
        yield
    except Exception as error:
        import traceback

        echo("".join(traceback.format_exception(error)), err=True, end="")
        sys.exit(1)


@contextmanager
def _reporting_full_output() -> Iterator[None]:
    """Print one line when standard output cannot be written.

    Its disk may be full. A reader that ended (`| head`) is no error worth a line.
    """
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OSError as error:
        if error.filename is not None or error.errno not in _OUTPUT_ERRORS:
            raise
        # Otherwise Python flushes the buffer again at exit, and fails again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno != errno.EPIPE:
            echo(
                f"mlxctl: standard output cannot be written: {error.strerror}; "
                "free some space, or send the output elsewhere",
                err=True,
            )
        sys.exit(1)


@contextmanager
def _reporting_missing_packages() -> Iterator[None]:
    """Print one line when a required package is missing or incomplete."""
    try:
        yield
    except ImportError as error:
        echo(f"mlxctl: a package is incomplete: {error}; `mlxctl doctor` names the fix", err=True)
        sys.exit(1)


@contextmanager
def _ending_at_interrupt() -> Iterator[None]:
    """End without a stack trace at Ctrl-C in a class body.

    Python reports it as RuntimeError.
    """
    try:
        yield
    except RuntimeError as error:
        if not isinstance(error.__cause__, KeyboardInterrupt):
            raise
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
