"""Checks that a rendered prompt contains the text of every message."""

import re
from collections.abc import Iterator, Sequence

from mlxctl.formats.adapters.templates.chat_template import TemplateMessage
from mlxctl.ir.errors import InvalidRequest

# Words are looked up: templates may trim or escape what is around them.
_WORDS = re.compile(r"[^\W_]+(?: [^\W_]+)*")
_MAX_SEARCHED_CHARS = 4096
_MAX_FRAGMENT_CHARS = 64


def check_shown(messages: Sequence[TemplateMessage], prompt: str, *, thinking_closer: str = "") -> None:
    """Raise InvalidRequest for the first message that is not in the prompt.

    A message counts as shown if its longest run of words is. Thinking is not checked: templates leave it out
    of earlier turns.
    """
    position = 0
    for index, message in enumerate(messages):
        for fragment in _fragments(message, thinking_closer):
            found = prompt.find(fragment, position)
            found = prompt.find(fragment) if found < 0 else found
            if found < 0:
                kind = {"tool": "tool result", "system": "system message"}.get(message["role"], "message")
                raise InvalidRequest(
                    f"the chat template does not show the {kind} {fragment!r} (message {index + 1} of "
                    f"{len(messages)} for the template)",
                    param="messages",
                )
            position = found


def _fragments(message: TemplateMessage, thinking_closer: str) -> Iterator[str]:
    text = message["content"]
    if message["role"] == "assistant":
        # Templates cut off thinking that a client sent back as text.
        for closer in filter(None, {thinking_closer, "</think>"}):
            text = text.rpartition(closer)[2]
    texts = [text]
    for call in message.get("tool_calls", ()):
        arguments = call["function"]["arguments"]
        texts += [call["function"]["name"]]
        texts += filter(
            lambda value: isinstance(value, str),
            arguments.values() if isinstance(arguments, dict) else [arguments],
        )
    for each in texts:
        runs = _WORDS.findall(each[:_MAX_SEARCHED_CHARS])
        if runs:
            yield max(runs, key=len)[:_MAX_FRAGMENT_CHARS]
