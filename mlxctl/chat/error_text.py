"""What the chat says about errors. Pure."""

import re

from mlxctl.ir.errors import ContextTooLong, InvalidRequest, MlxctlError

# Servers other than mlxctl and OpenAI name no code.
_TOO_LONG = re.compile(r"context[ _](length|size|window)|prompt is too long", re.IGNORECASE)


def sentence(error: MlxctlError) -> str:
    """Return the error's text with one full stop at its end."""
    text = str(error).rstrip()
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def is_too_long(error: MlxctlError) -> bool:
    """Whether the conversation does not fit into the model's context."""
    if not isinstance(error, InvalidRequest):
        return isinstance(error, ContextTooLong)
    return error.code == "context_length_exceeded" or _TOO_LONG.search(str(error)) is not None


def remedy(error: MlxctlError, *, has_earlier_messages: bool, new_chat: str) -> str:
    """Return what helps against an error; empty if unknown.

    The sentences begin with a space. `new_chat` is the key or command for a new chat.
    """
    if not is_too_long(error):
        return ""
    if not has_earlier_messages:
        return " This text alone is too long for the model: shorten it, or send fewer files."
    return (
        f" /compact replaces the earlier messages by a summary, {new_chat} starts a new chat, /delete N "
        "removes messages, and after /set overflow drop_oldest (or compact) the server leaves out what does "
        "not fit."
    )
