"""Which parsers fit a model: proved on its own template where that is possible."""

from collections.abc import Sequence
from contextlib import suppress

from mlxctl.adapters.templates.chat_template import ChatTemplate
from mlxctl.adapters.templates.conversation import arguments_value
from mlxctl.adapters.templates.shape import PROBE_CALL_ARGUMENTS, PROBE_CALL_NAME, PROBE_TOOL, TemplateShape
from mlxctl.adapters.tokens.vocabulary import Vocabulary
from mlxctl.errors import InvalidRequest
from mlxctl.ir import ModelCapabilities
from mlxctl.parsers import (
    THINKING_PARSER_IDS,
    TOOL_PARSER_IDS,
    ThinkingParser,
    ToolParser,
    combined,
    extract,
    thinking_parser,
    tool_parser,
)


def known_tool_parser(capabilities: ModelCapabilities) -> ToolParser | None:
    """Return the parser that is known to fit; None when nothing is known."""
    if capabilities.tools is False:
        return tool_parser("null")
    parser_id = capabilities.tool_parser_id
    return tool_parser(parser_id) if capabilities.tools and parser_id in TOOL_PARSER_IDS else None


def known_thinking_parser(capabilities: ModelCapabilities) -> ThinkingParser | None:
    """Return the parser that is known to fit; None when nothing is known."""
    if capabilities.thinking is False:
        return thinking_parser("null")
    parser_id = capabilities.thinking_parser_id
    return thinking_parser(parser_id) if capabilities.thinking and parser_id in THINKING_PARSER_IDS else None


def find_tool_parser(
    parser_ids: Sequence[str], template: ChatTemplate | None, shape: TemplateShape, vocabulary: Vocabulary
) -> ToolParser:
    """Choose the parser that reads back the call which the template wrote, and leaves the least of it over.

    `parser_ids` are tried before all others. A template that shows no calls is believed to mean one of them
    where it or the vocabulary knows the format's markers. A format that no parser reads gets the null parser:
    its calls would only be guessed at.
    """
    if template is None:
        return tool_parser("null")
    if not shape.takes_calls:
        return _mentioned(parser_ids, template, vocabulary)
    parsers = [tool_parser(parser_id) for parser_id in dict.fromkeys((*parser_ids, *TOOL_PARSER_IDS))]
    leftovers = [
        (left, index)
        for index, parser in enumerate(parsers)
        if (left := _leftover(parser, shape)) is not None
    ]
    return parsers[min(leftovers)[1]] if leftovers else tool_parser("null")


def with_native_formats(
    parser: ToolParser, parser_ids: Sequence[str], template: ChatTemplate | None, vocabulary: Vocabulary
) -> ToolParser:
    """Let a parser read the family's own formats, too, of which template or vocabulary know the markers.

    A model that is asked for calls in another way, since its template offers no tools, may still make them as
    it was trained to.
    """
    if not parser.opener:
        return parser
    source = "" if template is None else template.source
    natives = [tool_parser(parser_id) for parser_id in parser_ids if parser_id != parser.id]
    return combined(
        parser,
        [native for native in natives if any(_is_known(mark, source, vocabulary) for mark in native.openers)],
    )


def find_thinking_parser(template: ChatTemplate | None, vocabulary: Vocabulary) -> ThinkingParser:
    """Choose the first parser whose markers the template, what it renders, or else the vocabulary, has."""
    parsers = [thinking_parser(parser_id) for parser_id in THINKING_PARSER_IDS if parser_id != "null"]
    source = "" if template is None else template.source + _rendered_thought(template)
    for parser in parsers:
        if all(marker in source for marker in (parser.opener, parser.closer, *parser.identifying_texts)):
            return parser
    known = (
        parser
        for parser in parsers
        if parser.opener and not parser.identifying_texts and vocabulary.id_of(parser.opener) is not None
    )
    return next(known, thinking_parser("null"))


def _rendered_thought(template: ChatTemplate) -> str:
    """A conversation with a thought: some templates put their markers together from pieces."""
    fields = dict.fromkeys(("reasoning_content", "reasoning", "thinking"), "a thought")
    turn = [
        {"role": "user", "content": "a question"},
        {"role": "assistant", "content": "an answer", **fields},
    ]
    rendered = []
    for messages, is_open in ((turn, False), (turn[:1], True)):
        with suppress(InvalidRequest):
            rendered.append(template.render(messages, add_generation_prompt=is_open))
    return "".join(rendered)


def _leftover(parser: ToolParser, shape: TemplateShape) -> int | None:
    """How much of what the model would have said stays text when its call is read; None if the call is not
    read.
    """
    spoken = extract(shape.said_call, tools=parser, tool_specs=(PROBE_TOOL,))
    for message in (spoken, extract(shape.rendered_call, tools=parser, tool_specs=(PROBE_TOOL,))):
        for call in message.tool_calls:
            if call.name == PROBE_CALL_NAME and arguments_value(call.arguments) == PROBE_CALL_ARGUMENTS:
                return len(spoken.text)
    return None


def _mentioned(parser_ids: Sequence[str], template: ChatTemplate, vocabulary: Vocabulary) -> ToolParser:
    """The parser of which the most markers are known."""

    def num_known(parser: ToolParser) -> int:
        return _num_known_markers(parser, template.source, vocabulary)

    parsers = [tool_parser(parser_id) for parser_id in parser_ids]
    best = max(parsers, key=num_known, default=tool_parser("null"))
    return best if num_known(best) else tool_parser("null")


def _num_known_markers(parser: ToolParser, source: str, vocabulary: Vocabulary) -> int:
    """How many of a format's markers template or vocabulary know; none unless the opener and all inner ones
    are among them.
    """
    known = [marker for marker in parser.markers if _is_known(marker, source, vocabulary)]
    return len(known) if parser.opener and {parser.opener, *parser.inner_markers} <= set(known) else 0


def _is_known(marker: str, source: str, vocabulary: Vocabulary) -> bool:
    return marker in source or vocabulary.id_of(marker) is not None
