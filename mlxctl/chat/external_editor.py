"""The question in an editor of the user: $VISUAL or $EDITOR."""

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from mlxctl.ir.errors import StoreError

MAX_TEXT_BYTES = 1_000_000
_FALLBACKS = ("nano", "vim", "vi")


def editor_command(environment: Mapping[str, str] = os.environ) -> list[str] | None:
    """Return the command of the editor; None where there is none."""
    named = environment.get("VISUAL") or environment.get("EDITOR") or ""
    try:
        command = shlex.split(named)
    except ValueError:
        command = []
    if command:
        return command
    path = environment.get("PATH")
    return next(([name] for name in _FALLBACKS if shutil.which(name, path=path)), None)


def edit_text(text: str, command: Sequence[str] | None = None) -> str:
    """Return the text as the user saved it in the editor.

    By default in the user's editor. It gets a private file. Blocks until it ends. Raises StoreError when
    there is none, or it cannot run or fails.
    """
    command = command or editor_command()
    if command is None:
        raise StoreError("Set $EDITOR to the command of an editor.")
    with tempfile.TemporaryDirectory(prefix="mlxctl-", ignore_cleanup_errors=True) as directory:
        file = Path(directory) / "question.md"
        file.write_text(f"{text}\n" if text else "", encoding="utf-8")
        try:
            with _interrupts_ignored():
                ended = subprocess.run([*command, str(file)], check=False)  # noqa: S603 -- the user's editor
        except OSError as error:
            raise StoreError(f"cannot run {command[0]!r}: {error.strerror}") from None
        if ended.returncode != 0:
            raise StoreError(f"{command[0]!r} ended with {ended.returncode}; the text is unchanged")
        return _read_saved(file, command[0])


def _read_saved(file: Path, editor: str) -> str:
    try:
        with file.open("rb") as saved:
            data = saved.read(MAX_TEXT_BYTES + 1)
    except OSError as error:
        raise StoreError(f"{editor!r} saved no text: {error.strerror}; the text is unchanged") from None
    if len(data) > MAX_TEXT_BYTES:
        raise StoreError(f"the text has more than {MAX_TEXT_BYTES // 1_000_000} MB")
    return data.decode("utf-8", errors="replace").strip("\n")


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Leave Ctrl-C to the editor, which is in the same process group.

    A handler, since a child would inherit that a signal is ignored.
    """
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
