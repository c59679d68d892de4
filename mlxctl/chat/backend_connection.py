"""Open the backend, with retries while its server is unavailable."""

import asyncio
from collections.abc import Awaitable, Callable

from mlxctl.chat.chat_backend import BackendModel, ChatBackend, retry_seconds
from mlxctl.chat.controller.effects import Kind
from mlxctl.chat.error_text import sentence
from mlxctl.ir.errors import CapacityError, MlxctlError, ServerUnreachable
from mlxctl.terminal_text import escape_line

_RETRY_SECONDS = 2.0

HINTS = """\
/help      or F1 shows the keys and commands
/model     choose a model
/tools on  let the model use files and commands; each call asks first
Ctrl-P     search all commands"""
"""Text of a new chat below the connection notice."""


async def open_backend(
    backend: ChatBackend, *, show: Callable[[str, Kind], Awaitable[None]]
) -> BackendModel | None:
    """Return the model, or None when the backend cannot be opened.

    Retries while the server is unreachable or busy; `show` gets the notices.
    """
    while True:
        try:
            return await backend.open()
        except CapacityError as error:
            seconds = _RETRY_SECONDS if isinstance(error, ServerUnreachable) else retry_seconds(error)
            await show(f"{sentence(error)} Retrying every {seconds:g} s.", "warning")
            await asyncio.sleep(seconds)
        except MlxctlError as error:
            await show(str(error), "error")
            return None


def ready_text(model: BackendModel) -> str:
    """Return the lines that announce a loaded model."""
    context = f", context {model.context_length:,} tokens" if model.context_length else ""
    demo = (
        "\nThis is the tiny demo model: it greets, calls tools and repeats codewords."
        " Load a real one with -m or /model."
    )
    return f"{escape_line(model.name)} is ready{context}.{demo if model.is_demo else ''}"
