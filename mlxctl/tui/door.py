"""Into the chat: on a screen when there is a terminal on both ends, else, or when asked, as lines of text."""

import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from mlxctl import locations
from mlxctl.stores import SessionStore
from mlxctl.tui.attachments import read_images
from mlxctl.tui.beginning import Beginning, begin
from mlxctl.tui.keeper import Keeper
from mlxctl.tui.options import ChatOptions
from mlxctl.tui.partner import Partner
from mlxctl.tui.terminal import missing_screen, own_terminal


def run_chat(partner: Partner, options: ChatOptions, beginning: Beginning, *, images: Sequence[Path] = (), is_plain: bool) -> int:
    """Chat until the person has enough; returns the exit code. The `images` go with the first question.

    Raises StoreError when the conversation or the images to begin with cannot be had, and MlxctlError when plain text cannot begin.
    """
    keeper = Keeper(_store() if beginning.keeps else None)
    options, conversation = asyncio.run(begin(beginning, options, keeper))
    shown = read_images(images, beside=conversation.images)
    if not is_plain and (reason := missing_screen(sys.stdin, sys.stdout)):
        print(f"mlxctl: {reason}, so this is --plain", file=sys.stderr)
        is_plain = True
    if is_plain:
        from mlxctl.tui.plain import run_plain

        return run_plain(partner, options, keeper, conversation, shown)
    from mlxctl.tui.app import ChatApp

    app = ChatApp(partner, options, keeper=keeper, conversation=conversation, images=shown)
    with own_terminal(locations.state_directory() / "chat.log"):
        app.run()
    return app.return_code or 0


def list_chats(words: str) -> None:
    """Print the chats that hold these words, one a line, the last one first: id, time, model, title. Raises StoreError."""
    for summary in _store().search(words):
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(summary.used_at))
        print(summary.id, when, summary.model, summary.title, sep="  ")


def _store() -> SessionStore:
    return SessionStore(locations.state_directory() / "chats.db")
