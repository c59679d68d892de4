"""Sections of a prompt: messages, tools and template text. Pure.

A message is located by rendering the conversation again with that message marked: the difference is its text.
This works for every chat template, also if it reorders, rewrites or drops messages.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mlxctl.formats.adapters import ModelAdapter
from mlxctl.formats.adapters.prepared import NormalizedRequest
from mlxctl.ir import (
    Message,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    ToolSpec,
)
from mlxctl.ir.errors import InvalidRequest
from mlxctl.ir.tokens import Salt, common_length

Span = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSection:
    """A message or tool, with its index and changed part if known."""

    name: str
    message: int | None = None
    tool: int | None = None
    part: str | None = None


def message_section(messages: Sequence[Message], index: int, *, part: str | None = None) -> PromptSection:
    """Return the section of a message."""
    return PromptSection(name=f"message {index + 1} ({messages[index].role})", message=index, part=part)


def tool_section(tools: Sequence[ToolSpec], index: int, *, part: str | None = None) -> PromptSection:
    """Return the section of a tool definition."""
    return PromptSection(name=f"tool {index + 1} ({tools[index].name})", tool=index, part=part)


PROMPT = PromptSection(name="the prompt")
PREAMBLE = PromptSection(name="the text of the chat template before the first message")
GENERATION_PROMPT = PromptSection(name="the end of the prompt, where the answer begins")


def collapse_images(prompt_ids: Sequence[int], salts: Sequence[Salt], position: int) -> Sequence[int]:
    """Return the ids up to `position`, one id per image.

    The text of a prompt has one word per image, too.
    """
    ids: list[int] = []
    start = 0
    for salt in salts:
        if salt.is_image and salt.start < position:
            ids += prompt_ids[start : salt.start + 1]
            start = salt.end
    return [*ids, *prompt_ids[start:position]]


def find_section(request: NormalizedRequest, num_chars: int, adapter: ModelAdapter) -> PromptSection:
    """Return the section of the character at `num_chars` of the prompt."""
    if not request.messages:
        return PROMPT
    text = adapter.prompt_text(request)
    tool = _tool_at(request, text, num_chars, adapter)
    if tool is not None:
        return tool_section(request.tools, tool)
    if request.messages[0].role == "system":
        # Some templates write the system prompt into the last user message, after all others.
        system = _span(text, _with_marked_message(request, 0), adapter)
        if system is not None and system[0] <= num_chars <= system[1]:
            return message_section(request.messages, 0)
    index, span = _last_before(
        len(request.messages),
        num_chars,
        lambda number: _span(text, _with_marked_message(request, number), adapter),
    )
    if index is None:
        return (
            PREAMBLE
            if _is_before_header(request, text, num_chars, adapter)
            else message_section(request.messages, 0)
        )
    if num_chars <= span[1]:
        return message_section(request.messages, index)
    # Text between two messages is the header of the second.
    return (
        message_section(request.messages, index + 1)
        if index + 1 < len(request.messages)
        else GENERATION_PROMPT
    )


def rendered(request: NormalizedRequest, adapter: ModelAdapter) -> str | None:
    """Return the prompt of a changed request.

    None if the template rejects it.
    """
    try:
        return adapter.prompt_text(request)
    except InvalidRequest:
        return None


def _last_before(num: int, position: int, span_of: Callable[[int], Span | None]) -> tuple[int | None, Span]:
    """Return the last of `num` ordered elements that begins before `position`.

    By bisection; returns its span, too.
    """
    low, high, found = 0, num - 1, None
    best: Span = (0, 0)
    while low <= high:
        middle = (low + high) // 2
        # An element that the template drops has no span; use the one before it.
        number, span = middle, span_of(middle)
        while span is None and number > low:
            number -= 1
            span = span_of(number)
        if span is None or span[0] <= position:
            if span is not None:
                found, best = number, span
            low = middle + 1
        else:
            high = number - 1
    return found, best


def _is_before_header(request: NormalizedRequest, text: str, num_chars: int, adapter: ModelAdapter) -> bool:
    """Whether the character precedes even the header of the first message."""
    same = replace(request.messages[0], role="user" if request.messages[0].role == "system" else "system")
    other = rendered(replace(request, messages=(same, *request.messages[1:])), adapter)
    return other is not None and num_chars < common_length(text, other)


def _tool_at(request: NormalizedRequest, text: str, num_chars: int, adapter: ModelAdapter) -> int | None:
    if not request.tools:
        return None
    index, span = _last_before(
        len(request.tools), num_chars, lambda number: _span(text, _with_marked_tool(request, number), adapter)
    )
    if index is None or num_chars <= span[1]:
        return index
    # Text between two definitions belongs to the second one; after the last one, to no tool.
    following = (
        _span(text, _with_marked_tool(request, index + 1), adapter)
        if index + 1 < len(request.tools)
        else None
    )
    return index + 1 if following is not None and num_chars <= following[1] else None


def _span(text: str, marked: NormalizedRequest, adapter: ModelAdapter) -> Span | None:
    """Return the span of the marked text.

    None if the marks are not rendered.
    """
    other = rendered(marked, adapter)
    if other is None or other == text:
        return None
    start = common_length(text, other)
    rest = min(len(text), len(other)) - start
    behind = common_length(text[::-1][:rest], other[::-1][:rest])
    return start, len(text) - behind


def _with_marked_message(request: NormalizedRequest, index: int) -> NormalizedRequest:
    message = request.messages[index]
    parts = tuple(map(_marked_part, message.parts))
    if parts == message.parts:
        parts = (*parts, TextPart(text="Q"))
    return replace(
        request,
        messages=(*request.messages[:index], replace(message, parts=parts), *request.messages[index + 1 :]),
    )


def _marked_part(part: Part) -> Part:
    match part:
        case TextPart() | ThinkingPart() if part.text:
            return replace(part, text=_marked(part.text))
        case ToolCallPart():
            return replace(part, name=_marked(part.name), arguments=_marked_object(part.arguments))
        case ToolResultPart():
            texts = any(isinstance(inner, TextPart) and inner.text for inner in part.content)
            content = tuple(
                replace(inner, text=_marked(inner.text))
                if isinstance(inner, TextPart) and inner.text
                else inner
                for inner in part.content
            )
            return replace(part, content=content if texts else (*content, TextPart(text="Q")))
    return part


def _with_marked_tool(request: NormalizedRequest, index: int) -> NormalizedRequest:
    tool = request.tools[index]
    properties = tool.parameters.get("properties")
    parameters = dict(tool.parameters)
    if isinstance(properties, dict):
        parameters["properties"] = properties | {"QZ": {"type": "string", "description": "Q"}}
    parameters["QZ"] = "Q"
    marked = replace(
        tool, name=_marked(tool.name), description=_marked(tool.description), parameters=parameters
    )
    return replace(request, tools=(*request.tools[:index], marked, *request.tools[index + 1 :]))


def _marked(text: str) -> str:
    """Return the text with a different first and last letter added."""
    return ("Q" if text[:1] != "Q" else "Z") + text + ("Q" if text[-1:] != "Q" else "Z")


def _marked_object(arguments: str) -> str:
    try:
        values = json.loads(arguments)
    except ValueError:
        values = None
    if not isinstance(values, dict):
        return arguments
    return json.dumps({"QZ": "Q"} | values | {"ZQ": "Q"}, ensure_ascii=False)
