"""Converts past calls, results and thinking to what the template supports.

the template does not support     conversion
tool calls, tool results          text; for every template also results without a call
several calls in a message        one message per call, followed by its result
text beside calls                 a message of its own, or part of the turn's one text
text and thinking beside calls    the text is appended to the thinking
white space at a text's end       dropped before calls, so far as the template writes it itself
arguments as an object            JSON text
an empty text, a long id          null, a short id
thinking under OpenAI's name      the template's name
"""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from mlxctl.formats.adapters.templates.chat_template import TemplateMessage
from mlxctl.formats.adapters.templates.shape import TemplateShape
from mlxctl.formats.adapters.templates.text_calls import TextCallFormat

_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
_SHORT_ID_CHARS = 9


def shape_calls(
    messages: Sequence[TemplateMessage], shape: TemplateShape, written: TextCallFormat
) -> list[TemplateMessage]:
    """Return the conversation with its calls as the template supports them."""
    shaped = [_name_thinking(message, shape) for message in _orphans_as_text(messages, written)]
    shaped = (
        _calls_in_shape(shaped, shape)
        if shape.takes_calls
        else [_calls_as_text(message, written) for message in shaped]
    )
    return shaped if shape.takes_results else [_result_as_text(message, written) for message in shaped]


def _calls_in_shape(messages: list[TemplateMessage], shape: TemplateShape) -> list[TemplateMessage]:
    shaped = [_without_space_before_calls(message, shape) for message in messages]
    if not shape.takes_parallel_calls:
        shaped = _one_call_each(shaped)
    if shape.takes_text_beside_calls and shape.thinking_field and not shape.takes_text_beside_thinking:
        shaped = [_text_into_thinking(message, shape.thinking_field) for message in shaped]
    if not shape.takes_text_beside_calls:
        shaped = _separate_text(shaped, may_repeat=shape.takes_repeated_roles)
    if shape.wants_short_ids:
        shaped = [_with_short_ids(message) for message in shaped]
    return [_call_details(message, shape) for message in shaped]


def _calls_as_text(message: TemplateMessage, written: TextCallFormat) -> TemplateMessage:
    if "tool_calls" not in message:
        return message
    rest = {key: value for key, value in message.items() if key != "tool_calls"}
    calls = written.write_calls([call["function"] for call in message["tool_calls"]])
    # A text that the model generated ends with the line break that is written here.
    text = message["content"].removesuffix("\n")
    return {**rest, "content": "\n".join([*filter(None, [text]), calls])}


def _result_as_text(message: TemplateMessage, written: TextCallFormat) -> TemplateMessage:
    if message["role"] != "tool":
        return message
    return {"role": "user", "content": written.write_result(message["content"])}


def _orphans_as_text(messages: Sequence[TemplateMessage], written: TextCallFormat) -> list[TemplateMessage]:
    """Convert results without a call to text: many templates raise for them."""
    shaped = []
    called: set[str] = set()
    for message in messages:
        called |= {call["id"] for call in message.get("tool_calls", ())}
        is_orphan = message["role"] == "tool" and message["tool_call_id"] not in called
        shaped.append(_result_as_text(message, written) if is_orphan else message)
    return shaped


def _name_thinking(message: TemplateMessage, shape: TemplateShape) -> TemplateMessage:
    if "reasoning_content" not in message or shape.thinking_field in ("", "reasoning_content"):
        return message
    rest = {key: value for key, value in message.items() if key != "reasoning_content"}
    return {**rest, shape.thinking_field: message["reasoning_content"]}


def _without_space_before_calls(message: TemplateMessage, shape: TemplateShape) -> TemplateMessage:
    """Drop the white space before calls that the template writes, too.

    Then a text that the model generated is rendered as it was.
    """
    if "tool_calls" not in message:
        return message
    content = message["content"]
    kept = (
        content.removesuffix(shape.space_before_call) if shape.takes_text_beside_calls else content.rstrip()
    )
    return {**message, "content": kept}


def _one_call_each(messages: Sequence[TemplateMessage]) -> list[TemplateMessage]:
    """Give each call a message, followed by its results.

    Results of no call stay at the end.
    """
    separated: list[TemplateMessage] = []
    rest = list(messages)
    while rest:
        message = rest.pop(0)
        calls = message.get("tool_calls", ())
        if len(calls) < 2:
            separated.append(message)
            continue
        results = []
        while rest and rest[0]["role"] == "tool":
            results.append(rest.pop(0))
        for index, call in enumerate(calls):
            own = [result for result in results if result["tool_call_id"] == call["id"]]
            results = [result for result in results if result not in own]
            first = message if index == 0 else {"role": message["role"], "content": ""}
            separated += [{**first, "tool_calls": [call]}, *own]
        separated += results
    return separated


def _text_into_thinking(message: TemplateMessage, field: str) -> TemplateMessage:
    if "tool_calls" not in message or not message["content"] or field not in message:
        return message
    return {**message, "content": "", field: f"{message[field]}\n\n{message['content']}"}


def _separate_text(messages: Sequence[TemplateMessage], *, may_repeat: bool) -> list[TemplateMessage]:
    """Move text beside calls to a message before them."""
    if not may_repeat:
        return _text_in_one_message(messages)
    separated: list[TemplateMessage] = []
    for message in messages:
        if "tool_calls" in message and message["content"]:
            separated.append({"role": message["role"], "content": message["content"]})
            message = {**message, "content": ""}
        separated.append(message)
    return separated


def _text_in_one_message(messages: Sequence[TemplateMessage]) -> list[TemplateMessage]:
    """Move text beside calls to one message, for templates with strict turns.

    It joins the turn's answer; in a turn without one, all of it precedes the calls.
    """
    separated: list[TemplateMessage] = []
    pending: list[str] = []
    position: int | None = None
    messages = _text_at_its_call(messages)
    for index, message in enumerate(messages):
        if "tool_calls" in message and message["content"]:
            if _is_answered(messages[index + 1 :]):
                pending.append(message["content"])
            elif position is None:
                position = len(separated)
                separated.append({"role": message["role"], "content": message["content"]})
            else:
                separated[position] = {
                    **separated[position],
                    "content": f"{separated[position]['content']}\n\n{message['content']}",
                }
            message = {**message, "content": ""}
        elif message["role"] == "assistant" and pending and "tool_calls" not in message:
            message = {**message, "content": "\n\n".join([*pending, *filter(None, [message["content"]])])}
            pending = []
        separated.append(message)
    return separated


def _text_at_its_call(messages: Sequence[TemplateMessage]) -> list[TemplateMessage]:
    """Join an assistant's text with the calls that follow it."""
    joined: list[TemplateMessage] = []
    for message in messages:
        if (
            joined
            and "tool_calls" in message
            and joined[-1]["role"] == "assistant"
            and "tool_calls" not in joined[-1]
        ):
            texts = filter(None, [joined.pop()["content"], message["content"]])
            message = {**message, "content": "\n\n".join(texts)}
        joined.append(message)
    return joined


def _is_answered(messages: Sequence[TemplateMessage]) -> bool:
    """Whether the turn ends with an answer without calls."""
    for message in messages:
        if message["role"] == "assistant" and "tool_calls" not in message:
            return True
        if message["role"] in ("user", "system"):
            return False
    return False


def _with_short_ids(message: TemplateMessage) -> TemplateMessage:
    if message["role"] == "tool":
        return {**message, "tool_call_id": short_id(message["tool_call_id"])}
    if "tool_calls" not in message:
        return message
    return {**message, "tool_calls": [{**call, "id": short_id(call["id"])} for call in message["tool_calls"]]}


def short_id(call_id: str) -> str:
    """Return nine letters and digits, a hash of the id."""
    number = int.from_bytes(hashlib.sha256(call_id.encode()).digest()[:8])
    return "".join(_ALPHABET[number // 36**position % 36] for position in range(_SHORT_ID_CHARS))


def _call_details(message: TemplateMessage, shape: TemplateShape) -> TemplateMessage:
    if "tool_calls" not in message:
        return message
    calls = (
        [_with_arguments_text(call) for call in message["tool_calls"]]
        if shape.wants_arguments_text
        else message["tool_calls"]
    )
    content = None if shape.wants_null_content and not message["content"] else message["content"]
    return {**message, "content": content, "tool_calls": calls}


def _with_arguments_text(call: dict[str, Any]) -> dict[str, Any]:
    arguments = call["function"]["arguments"]
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return {**call, "function": {**call["function"], "arguments": text}}
