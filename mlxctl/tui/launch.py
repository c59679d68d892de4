"""Start a chat: one prompt answered on standard output, a screen, or lines of text."""

import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, TextIO

from mlxctl import locations
from mlxctl.errors import InvalidRequest
from mlxctl.stores import SessionStore
from mlxctl.tui.answer_report import ReportFormat
from mlxctl.tui.attachments import read_images
from mlxctl.tui.chat_backend import ChatBackend
from mlxctl.tui.initial_conversation import Beginning, begin
from mlxctl.tui.options import ChatOptions
from mlxctl.tui.preferences import Preferences, preferences_file
from mlxctl.tui.session_autosave import SessionAutosave
from mlxctl.tui.terminal import missing_screen, own_terminal

MAX_PIPED_BYTES = 16_000_000
"""How much text is read from a pipe for a prompt."""


def run_chat(
    backend: ChatBackend,
    options: ChatOptions,
    beginning: Beginning,
    *,
    prompt: str | None = None,
    images: Sequence[Path] = (),
    is_plain: bool,
    report: ReportFormat | None = None,
) -> int:
    """Chat until the person quits, or answer `prompt` with piped text below it; returns the exit code.

    The `images` go with the first question. Raises StoreError when the conversation or an image cannot be
    read, and MlxctlError when a plain chat cannot be opened.
    """
    autosave = SessionAutosave(_store() if beginning.keeps else None)
    options, conversation = asyncio.run(begin(beginning, options, autosave))
    shown = read_images(images, beside=conversation.images)
    # A shell's `<&-` leaves no standard input at all.
    stdin: TextIO | None = sys.stdin
    if stdin is None or not stdin.isatty():
        prompt = join_prompt(prompt or "", "" if stdin is None else _read_piped(stdin.buffer))
    elif prompt is not None:
        prompt = join_prompt(prompt, "")
    if prompt is None and not is_plain and (reason := missing_screen(sys.stdin, sys.stdout)):
        print(f"mlxctl: {reason}, so this is --plain", file=sys.stderr)
        is_plain = True
    if prompt is not None or is_plain:
        from mlxctl.tui.plain_chat import run_plain

        return run_plain(backend, options, autosave, conversation, shown, prompt=prompt, report=report)
    from mlxctl.tui.app import ChatApp

    preferences = Preferences(preferences_file())
    app = ChatApp(
        backend, options, autosave=autosave, conversation=conversation, images=shown, preferences=preferences
    )
    with own_terminal(locations.state_directory() / "chat.log"):
        app.run()
    return app.return_code or 0


def join_prompt(prompt: str, piped: str) -> str:
    """Return one prompt: the words of the command line, and below them the piped text.

    Raises InvalidRequest for nothing.
    """
    text = "\n\n".join(part for part in (prompt.strip(), piped.strip("\r\n")) if part.strip())
    if not text:
        raise InvalidRequest("the prompt is empty: give a question as an argument or on standard input")
    return text


def _read_piped(source: BinaryIO) -> str:
    data = source.read(MAX_PIPED_BYTES + 1)
    if len(data) > MAX_PIPED_BYTES:
        raise InvalidRequest(f"standard input has more than {MAX_PIPED_BYTES // 1_000_000} MB of text")
    return data.decode("utf-8", errors="replace")


def list_chats(words: str) -> None:
    """Print the chats that contain these words, the last one first: id, time, model, title.

    Raises StoreError.
    """
    found = _store().search(words)
    if not found:
        print("mlxctl: no saved chats", file=sys.stderr)
    for summary in found:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(summary.used_at))
        print(summary.id, when, summary.model, summary.title, sep="  ")


def _store() -> SessionStore:
    return SessionStore(locations.state_directory() / "chats.db")
