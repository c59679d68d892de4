"""Which parsers fit a model: proved on its own template where that is possible."""

from collections.abc import Sequence

from mlxctl.adapters.chat_template import ChatTemplate
from mlxctl.adapters.conversation import arguments_value
from mlxctl.adapters.shape import PROBE_CALL_ARGUMENTS, PROBE_CALL_NAME, TemplateShape
from mlxctl.adapters.vocabulary import Vocabulary
from mlxctl.parsers import ThinkingParser, ToolParser, extract, thinking_parser, tool_parser

_HERMES_MARKER = "<tool_call>"


def find_tool_parser(
    parser_ids: Sequence[str], template: ChatTemplate | None, shape: TemplateShape, vocabulary: Vocabulary
) -> ToolParser:
    """Choose the parser that reads back the call which the template wrote.

    A template that shows no calls is believed to mean Hermes where it or the vocabulary knows the marker. A format that no parser
    reads gets the null parser: its calls would only be guessed at.
    """
    for parser_id in parser_ids:
        parser = tool_parser(parser_id)
        if shape.takes_calls and _reads_probe(parser, shape.rendered_call):
            return parser
    if template is not None and not shape.takes_calls and "hermes_json" in parser_ids:
        is_mentioned = _HERMES_MARKER in template.source or vocabulary.id_of(_HERMES_MARKER) is not None
        return tool_parser("hermes_json" if is_mentioned else "null")
    return tool_parser("null")


def find_thinking_parser(template: ChatTemplate | None, vocabulary: Vocabulary) -> ThinkingParser:
    """Choose the think tag where the vocabulary, or the template, has it."""
    parser = thinking_parser("think_tag")
    is_in_template = template is not None and parser.opener in template.source and parser.closer in template.source
    return parser if is_in_template or vocabulary.id_of(parser.opener) is not None else thinking_parser("null")


def _reads_probe(parser: ToolParser, rendered: str) -> bool:
    calls = extract(rendered, tools=parser).tool_calls
    return any(call.name == PROBE_CALL_NAME and arguments_value(call.arguments) == PROBE_CALL_ARGUMENTS for call in calls)
