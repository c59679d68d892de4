"""Merges or moves messages until the template supports the conversation.

the template does not support     conversion
several leading system messages   one, separated by a blank line (always)
a system message                  part of the first user message
a system message alone            a user message
a later system message            a user message, marked as <system-reminder>
tool calls, tool results          text, see `call_shape` and `text_calls`
two messages of one role          one, separated by a blank line
a turn that begins with the       a placeholder message in between
assistant, or results without
an answer
an answer without content         one with a placeholder
"""

from collections.abc import Sequence

from mlxctl.formats.adapters.templates.call_shape import shape_calls
from mlxctl.formats.adapters.templates.chat_template import TemplateMessage
from mlxctl.formats.adapters.templates.shape import TemplateShape
from mlxctl.formats.adapters.templates.text_calls import TextCallFormat

_PLACEHOLDER = "(nothing said)"


def reshape(
    messages: Sequence[TemplateMessage], shape: TemplateShape, written: TextCallFormat
) -> list[TemplateMessage]:
    """Return the conversation as the template supports it."""
    shaped = shape_calls(_fill_turns(_place_system(list(messages), shape), shape), shape, written)
    return shaped if shape.takes_repeated_roles else _merge_repeated(shaped, shape)


def _fill_turns(messages: list[TemplateMessage], shape: TemplateShape) -> list[TemplateMessage]:
    """Insert the messages and contents without which a template rejects the conversation.

    They are missing where a client truncated it, or a user interrupted.
    """
    filled: list[TemplateMessage] = []
    before = "system"
    for message in messages:
        role = message["role"]
        if role == "assistant" and before == "system" and not shape.takes_leading_assistant:
            filled.append({"role": "user", "content": _PLACEHOLDER})
        if role == "user" and before == "tool" and not shape.takes_unanswered_results:
            filled.append({"role": "assistant", "content": _PLACEHOLDER})
        if role == "assistant" and not (message["content"] or "tool_calls" in message):
            message = message if shape.takes_empty_answers else {**message, "content": _PLACEHOLDER}
        filled.append(message)
        before = role
    return filled


def _place_system(messages: list[TemplateMessage], shape: TemplateShape) -> list[TemplateMessage]:
    num_leading = num_leading_systems(messages)
    leading, rest = messages[:num_leading], messages[num_leading:]
    if not shape.takes_later_system:
        rest = [_reminder(message) if message["role"] == "system" else message for message in rest]
    if not leading:
        return rest
    system = {**leading[0], "content": joined(leading)}
    if shape.takes_system and (rest or shape.takes_lone_system):
        return [system, *rest]
    if rest and rest[0]["role"] == "user":
        return [{**rest[0], "content": joined([system, rest[0]])}, *rest[1:]]
    return [{**system, "role": "user"}, *rest]


def num_leading_systems(messages: Sequence[TemplateMessage]) -> int:
    """Return the number of leading system messages."""
    return next(
        (index for index, message in enumerate(messages) if message["role"] != "system"), len(messages)
    )


def _reminder(message: TemplateMessage) -> TemplateMessage:
    return {"role": "user", "content": f"<system-reminder>\n{message['content']}\n</system-reminder>"}


def _merge_repeated(messages: list[TemplateMessage], shape: TemplateShape) -> list[TemplateMessage]:
    merged: list[TemplateMessage] = []
    for message in messages:
        if (
            merged
            and merged[-1]["role"] == message["role"] != "tool"
            and _may_merge(merged[-1], message, shape)
        ):
            merged[-1] = _merge(merged[-1], message)
        else:
            merged.append(message)
    return merged


def _may_merge(first: TemplateMessage, second: TemplateMessage, shape: TemplateShape) -> bool:
    """Whether no text would be lost beside calls."""
    return shape.takes_text_beside_calls or ("tool_calls" in first) == ("tool_calls" in second)


def _merge(first: TemplateMessage, second: TemplateMessage) -> TemplateMessage:
    both = [first, second]
    merged = {**first, **second, "content": joined(both)}
    if calls := [call for message in both for call in message.get("tool_calls", ())]:
        merged["tool_calls"] = calls
    for field in ("reasoning_content", "thinking", "reasoning"):
        if thinking := [message[field] for message in both if field in message]:
            merged[field] = "\n\n".join(thinking)
    return merged


def joined(messages: Sequence[TemplateMessage]) -> str:
    """Return the texts of messages, separated by a blank line."""
    return "\n\n".join(message["content"] for message in messages if message["content"])
