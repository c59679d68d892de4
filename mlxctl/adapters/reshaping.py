"""Brings a conversation into a shape that the template takes: merged or moved, never lost.

what the template may not take    what is done then
several system messages first     they become one, a blank line between them (always)
a system message                  it opens the first user message
a later system message            it becomes a user message, marked as <system-reminder>
tool calls, tool results          they become text, marked as <tool_call> and <tool_response>
arguments as an object            they become JSON text
two messages of one role          they become one, a blank line between them
"""

import json
from collections.abc import Sequence
from typing import Any

from mlxctl.adapters.chat_template import TemplateMessage
from mlxctl.adapters.shape import TemplateShape


def reshape(messages: Sequence[TemplateMessage], shape: TemplateShape) -> list[TemplateMessage]:
    """Return the conversation in the template's shape."""
    shaped = list(messages)
    if not shape.takes_calls:
        shaped = [_calls_as_text(message) for message in shaped]
    elif shape.wants_arguments_text:
        shaped = [_arguments_as_text(message) for message in shaped]
    if not shape.takes_results:
        shaped = [_result_as_text(message) for message in shaped]
    shaped = _place_system(shaped, shape)
    return shaped if shape.takes_repeated_roles else _merge_repeated(shaped)


def _calls_as_text(message: TemplateMessage) -> TemplateMessage:
    if "tool_calls" not in message:
        return message
    rest = {key: value for key, value in message.items() if key != "tool_calls"}
    calls = [_call_text(call["function"]) for call in message["tool_calls"]]
    return {**rest, "content": "\n".join([*filter(None, [message["content"]]), *calls])}


def _arguments_as_text(message: TemplateMessage) -> TemplateMessage:
    if "tool_calls" not in message:
        return message
    calls = []
    for call in message["tool_calls"]:
        arguments = call["function"]["arguments"]
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        calls.append({**call, "function": {**call["function"], "arguments": text}})
    return {**message, "tool_calls": calls}


def _call_text(function: dict[str, Any]) -> str:
    body = json.dumps({"name": function["name"], "arguments": function["arguments"]}, ensure_ascii=False)
    return f"<tool_call>\n{body}\n</tool_call>"


def _result_as_text(message: TemplateMessage) -> TemplateMessage:
    if message["role"] != "tool":
        return message
    return {"role": "user", "content": f"<tool_response>\n{message['content']}\n</tool_response>"}


def _place_system(messages: list[TemplateMessage], shape: TemplateShape) -> list[TemplateMessage]:
    num_leading = next((index for index, message in enumerate(messages) if message["role"] != "system"), len(messages))
    leading, rest = messages[:num_leading], messages[num_leading:]
    if not shape.takes_later_system:
        rest = [_reminder(message) if message["role"] == "system" else message for message in rest]
    if not leading:
        return rest
    system = {**leading[0], "content": _joined(leading)}
    if shape.takes_system:
        return [system, *rest]
    if rest and rest[0]["role"] == "user":
        return [{**rest[0], "content": _joined([system, rest[0]])}, *rest[1:]]
    return [{**system, "role": "user"}, *rest]


def _reminder(message: TemplateMessage) -> TemplateMessage:
    return {"role": "user", "content": f"<system-reminder>\n{message['content']}\n</system-reminder>"}


def _merge_repeated(messages: list[TemplateMessage]) -> list[TemplateMessage]:
    merged: list[TemplateMessage] = []
    for message in messages:
        if merged and merged[-1]["role"] == message["role"] != "tool":
            merged[-1] = _merge(merged[-1], message)
        else:
            merged.append(message)
    return merged


def _merge(first: TemplateMessage, second: TemplateMessage) -> TemplateMessage:
    both = [first, second]
    merged = {**first, **second, "content": _joined(both)}
    if calls := [call for message in both for call in message.get("tool_calls", ())]:
        merged["tool_calls"] = calls
    if thinking := [message["reasoning_content"] for message in both if "reasoning_content" in message]:
        merged["reasoning_content"] = "\n\n".join(thinking)
    return merged


def _joined(messages: Sequence[TemplateMessage]) -> str:
    return "\n\n".join(message["content"] for message in messages if message["content"])
