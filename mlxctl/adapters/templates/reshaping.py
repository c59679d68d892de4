"""Brings a conversation into a shape that the template takes: merged or moved, never lost.

what the template may not take    what is done then
several system messages first     they become one, a blank line between them (always)
a system message                  it opens the first user message
a later system message            it becomes a user message, marked as <system-reminder>
tool calls, tool results          they become text, as `call_shape` and `written_calls` say
two messages of one role          they become one, a blank line between them
a turn without its beginning,     the missing message says that nothing was said
or results without an answer
"""

from collections.abc import Sequence

from mlxctl.adapters.templates.call_shape import shape_calls
from mlxctl.adapters.templates.chat_template import TemplateMessage
from mlxctl.adapters.templates.shape import TemplateShape
from mlxctl.adapters.templates.written_calls import TAGS, WrittenCalls

_NOTHING_SAID = "(nothing said)"


def reshape(
    messages: Sequence[TemplateMessage], shape: TemplateShape, written: WrittenCalls = TAGS
) -> list[TemplateMessage]:
    """Return the conversation in the template's shape."""
    shaped = shape_calls(_fill_turns(_place_system(list(messages), shape), shape), shape, written)
    return shaped if shape.takes_repeated_roles else _merge_repeated(shaped, shape)


def _fill_turns(messages: list[TemplateMessage], shape: TemplateShape) -> list[TemplateMessage]:
    """Put in the messages without which a template refuses the conversation: of a client that cut it, or of a
    user who cut in.
    """
    filled: list[TemplateMessage] = []
    before = "system"
    for message in messages:
        role = message["role"]
        if role == "assistant" and before == "system" and not shape.takes_leading_assistant:
            filled.append({"role": "user", "content": _NOTHING_SAID})
        if role == "user" and before == "tool" and not shape.takes_unanswered_results:
            filled.append({"role": "assistant", "content": _NOTHING_SAID})
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
    if shape.takes_system:
        return [system, *rest]
    if rest and rest[0]["role"] == "user":
        return [{**rest[0], "content": joined([system, rest[0]])}, *rest[1:]]
    return [{**system, "role": "user"}, *rest]


def num_leading_systems(messages: Sequence[TemplateMessage]) -> int:
    """How many system messages the conversation begins with."""
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
    """Text that a template would not show beside calls stays apart from them."""
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
    """The texts of messages, a blank line between them."""
    return "\n\n".join(message["content"] for message in messages if message["content"])
