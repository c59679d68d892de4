"""Special tokens in the text of messages, marked to stay text.

The tokenizer recognizes special tokens anywhere in a rendered prompt, also in the text of a message, a file
or a web page: `<|im_end|>` in a tool result would end the turn (prompt injection). So MARK is inserted after
the first character of each before the template is rendered, and removed when the prompt is encoded
(`EncodedSegments`).
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from mlxctl.formats.adapters.tokens.literal_pattern import literal_pattern
from mlxctl.formats.adapters.tokens.vocabulary import AddedToken
from mlxctl.ir import (
    GenerationRequest,
    Message,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    ToolSpec,
)

# A character that Unicode reserves for uses like this one. U+FFFD replaces it in a request's own texts.
MARK = "\ufdd0"
# The mark while the template is rendered: the first printable character from here on that no text contains.
# Templates may print a value as Python does, which escapes characters that are not printable.
_FIRST_PRINTED_MARK = 0x4DC0

Change = Callable[[str], str]


class ControlTexts:
    """The texts of one model's control tokens. Thread-safe.

    These are its special tokens, and those in angle brackets that its template writes. Of the latter, tags
    such as `<tool_call>` and `<think>` count in tool results only: clients that write calls and results as
    text use them. In past answers the parts of `markers` do not count: clients send thinking and calls back
    as text.
    """

    def __init__(
        self, added: Iterable[AddedToken], *, template: str, markers: frozenset[str] = frozenset()
    ) -> None:
        texts = {
            token.text: token.is_special or not _is_tag(token.text)
            for token in added
            if len(token.text) > 1 and (token.is_special or (token.is_control and token.text in template))
        }
        self._template = template
        self._in_results = literal_pattern([*texts, MARK])
        self._in_texts = literal_pattern([MARK, *(text for text, is_turn in texts.items() if is_turn)])
        self._in_answers = literal_pattern(
            [
                MARK,
                *(
                    text
                    for text, is_turn in texts.items()
                    if is_turn and not any(text in marker for marker in markers)
                ),
            ]
        )

    def marked(self, request: GenerationRequest) -> tuple[GenerationRequest, str]:
        """Return the request for the template, and the mark in it.

        The mark is "" for a request without such texts.
        """
        texts: list[str] = []
        has_found = False

        def look(pattern: re.Pattern[str]) -> Change:
            def change(text: str) -> str:
                nonlocal has_found
                texts.append(text)
                has_found = has_found or pattern.search(text) is not None
                return text

            return change

        self._changed(request, look)
        if not has_found:
            return request, ""
        whole = "".join([self._template, *texts])
        printable = (char for char in map(chr, range(_FIRST_PRINTED_MARK, 0x110000)) if char.isprintable())
        mark = next(char for char in printable if char not in whole)
        return self._changed(request, lambda pattern: partial(_marked, pattern, mark=mark)), mark

    def marked_answer(self, text: str) -> str:
        """Return the text of an answer as later prompts contain it."""
        return _marked(self._in_answers, text, MARK)

    def _changed(
        self, request: GenerationRequest, change_by: Callable[[re.Pattern[str]], Change]
    ) -> GenerationRequest:
        in_texts, in_results, in_answers = map(
            change_by, (self._in_texts, self._in_results, self._in_answers)
        )
        return replace(
            request,
            messages=tuple(
                _changed_message(message, in_answers if message.role == "assistant" else in_texts, in_results)
                for message in request.messages
            ),
            tools=tuple(_changed_tool(tool, in_texts) for tool in request.tools),
            template_kwargs=_changed_value(request.template_kwargs, in_texts),
        )


def _is_tag(text: str) -> bool:
    """Whether it is a tag as in XML, which people write too."""
    return text[1:-1].removeprefix("/").replace("_", "").isalnum()


def _marked(pattern: re.Pattern[str], text: str, mark: str) -> str:
    """Put the mark into each match, and into what its rest spells."""

    def put(match: re.Match[str]) -> str:
        first, rest = match[0][0], match[0][1:]
        return "\ufffd" if first == MARK else first + mark + _marked(pattern, rest, mark)

    return pattern.sub(put, text)


def _changed_message(message: Message, change: Change, change_result: Change) -> Message:
    return replace(message, parts=tuple(_changed_part(part, change, change_result) for part in message.parts))


def _changed_part(part: Part, change: Change, change_result: Change) -> Part:
    if isinstance(part, TextPart | ThinkingPart):
        return replace(part, text=change(part.text))
    if isinstance(part, ToolCallPart):
        return replace(part, arguments=_changed_arguments(part.arguments, change))
    if isinstance(part, ToolResultPart):
        content = tuple(
            replace(inner, text=change_result(inner.text)) if isinstance(inner, TextPart) else inner
            for inner in part.content
        )
        return replace(part, content=content)
    return part


def _changed_arguments(arguments: str, change: Change) -> str:
    """Change JSON text, also where escapes spell a text."""
    changed = change(arguments)
    if "\\" not in changed:
        return changed
    try:
        value = json.loads(changed)
    except (ValueError, RecursionError):
        return changed
    other = _changed_value(value, change)
    return changed if other == value else json.dumps(other, ensure_ascii=False)


def _changed_tool(tool: ToolSpec, change: Change) -> ToolSpec:
    return replace(
        tool, description=change(tool.description), parameters=_changed_value(tool.parameters, change)
    )


def _changed_value(value: Any, change: Change) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {change(name): _changed_value(inner, change) for name, inner in value.items()}
    if isinstance(value, Sequence):
        return [_changed_value(inner, change) for inner in value]
    return value
