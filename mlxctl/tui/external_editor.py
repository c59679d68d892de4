"""The question in an editor of the user: $VISUAL or $EDITOR."""

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from mlxctl.errors import StoreError

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


def edit_text(command: Sequence[str], text: str) -> str:
    """Return the text as the user saved it in the editor.

    The editor gets a private file. Blocks until it ends. Raises StoreError when it cannot run or fails.
    """
    with tempfile.TemporaryDirectory(prefix="mlxctl-") as directory:
        file = Path(directory) / "question.md"
        file.write_text(text, encoding="utf-8")
        try:
            ended = subprocess.run([*command, str(file)], check=False)  # noqa: S603 -- the user's editor
        except OSError as error:
            raise StoreError(f"cannot run {command[0]!r}: {error.strerror}") from None
        if ended.returncode != 0:
            raise StoreError(f"{command[0]!r} ended with {ended.returncode}; the text is unchanged")
        if file.stat().st_size > MAX_TEXT_BYTES:
            raise StoreError(f"the text has more than {MAX_TEXT_BYTES // 1_000_000} MB")
        return file.read_text(encoding="utf-8", errors="replace").strip("\n")
