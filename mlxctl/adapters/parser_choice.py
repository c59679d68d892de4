"""Which parsers fit a model: proved on its own template where that is possible."""

from collections.abc import Sequence

from mlxctl.adapters.chat_template import ChatTemplate
from mlxctl.adapters.conversation import arguments_value
from mlxctl.adapters.shape import PROBE_CALL_ARGUMENTS, PROBE_CALL_NAME, PROBE_TOOL, TemplateShape
from mlxctl.adapters.vocabulary import Vocabulary
from mlxctl.parsers import THINKING_PARSER_IDS, TOOL_PARSER_IDS, ThinkingParser, ToolParser, extract, thinking_parser, tool_parser


def find_tool_parser(
    parser_ids: Sequence[str], template: ChatTemplate | None, shape: TemplateShape, vocabulary: Vocabulary
) -> ToolParser:
    """Choose the parser that reads back the call which the template wrote, and leaves the least of it over.

    `parser_ids` are tried before all others. A template that shows no calls is believed to mean one of them where it or the
    vocabulary knows the format's markers. A format that no parser reads gets the null parser: its calls would only be guessed at.
    """
    if template is None:
        return tool_parser("null")
    if not shape.takes_calls:
        return _mentioned(parser_ids, template, vocabulary)
    parsers = [tool_parser(parser_id) for parser_id in dict.fromkeys((*parser_ids, *TOOL_PARSER_IDS))]
    leftovers = [(left, index) for index, parser in enumerate(parsers) if (left := _leftover(parser, shape)) is not None]
    return parsers[min(leftovers)[1]] if leftovers else tool_parser("null")


def find_thinking_parser(template: ChatTemplate | None, vocabulary: Vocabulary) -> ThinkingParser:
    """Choose the first parser whose markers the template, or else the vocabulary, has."""
    parsers = [thinking_parser(parser_id) for parser_id in THINKING_PARSER_IDS if parser_id != "null"]
    source = "" if template is None else template.source
    for parser in parsers:
        if parser.opener in source and parser.closer in source:
            return parser
    known = (parser for parser in parsers if vocabulary.id_of(parser.opener) is not None)
    return next(known, thinking_parser("null"))


def _leftover(parser: ToolParser, shape: TemplateShape) -> int | None:
    """How much of what the model would have said stays text when its call is read; None if the call is not read."""
    spoken = extract(shape.said_call, tools=parser, offered=(PROBE_TOOL,))
    for message in (spoken, extract(shape.rendered_call, tools=parser, offered=(PROBE_TOOL,))):
        for call in message.tool_calls:
            if call.name == PROBE_CALL_NAME and arguments_value(call.arguments) == PROBE_CALL_ARGUMENTS:
                return len(spoken.text)
    return None


def _mentioned(parser_ids: Sequence[str], template: ChatTemplate, vocabulary: Vocabulary) -> ToolParser:
    """The parser of which the most markers are known; its opener and all inner ones have to be."""

    def is_known(marker: str) -> bool:
        return marker in template.source or vocabulary.id_of(marker) is not None

    def num_known(parser: ToolParser) -> int:
        needed = (parser.opener, *parser.inner_markers)
        return sum(map(is_known, parser.markers)) if parser.opener and all(map(is_known, needed)) else 0

    parsers = [tool_parser(parser_id) for parser_id in parser_ids]
    best = max(parsers, key=num_known, default=tool_parser("null"))
    return best if num_known(best) else tool_parser("null")
