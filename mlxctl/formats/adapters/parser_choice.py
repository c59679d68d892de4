"""Chooses the parsers of a model, by its own template where possible."""

import logging
from collections.abc import Sequence
from contextlib import suppress

from mlxctl.formats.adapters.templates.chat_template import ChatTemplate
from mlxctl.formats.adapters.templates.conversation import arguments_value
from mlxctl.formats.adapters.templates.shape import (
    PROBE_CALL_ARGUMENTS,
    PROBE_CALL_NAME,
    PROBE_TOOL,
    TemplateShape,
)
from mlxctl.formats.adapters.tokens.vocabulary import Vocabulary
from mlxctl.formats.parsers import (
    THINKING_PARSER_IDS,
    TOOL_PARSER_IDS,
    TemplateParsers,
    ThinkingParser,
    ToolParser,
    combined,
    extract,
    read_response_template,
    thinking_parser,
    tool_parser,
)
from mlxctl.ir import ModelCapabilities, ModelFacts
from mlxctl.ir.errors import InvalidRequest

_log = logging.getLogger(__name__)


def described_parsers(facts: ModelFacts) -> TemplateParsers:
    """Return the parsers of the model's `response_template`.

    One that cannot be used counts as none.
    """
    try:
        return read_response_template(facts.tokenizer_config)
    except ValueError as error:
        _log.warning("%s: its response_template is not used: %s", facts.path.name, error)
        return TemplateParsers()


def known_tool_parser(capabilities: ModelCapabilities, described: TemplateParsers) -> ToolParser | None:
    """Return the tool parser that the capabilities name; None if unknown.

    An id that does not exist counts as unknown.
    """
    parser_id = capabilities.tool_parser_id
    is_known = capabilities.tools and parser_id in described.tool_ids
    return described.tool_parser(parser_id) if is_known and parser_id else None


def known_thinking_parser(
    capabilities: ModelCapabilities, described: TemplateParsers
) -> ThinkingParser | None:
    """Return the thinking parser that the capabilities name; None if unknown."""
    if capabilities.thinking is False:
        return thinking_parser("null")
    parser_id = capabilities.thinking_parser_id
    is_known = capabilities.thinking and parser_id in described.thinking_ids
    return described.thinking_parser(parser_id) if is_known and parser_id else None


def find_tool_parser(
    parser_ids: Sequence[str], template: ChatTemplate | None, shape: TemplateShape, vocabulary: Vocabulary
) -> ToolParser:
    """Choose the parser that reads back the call which the template renders.

    The one that leaves the least text over wins; `parser_ids` are tried before all others. A template that
    renders no calls gets the parser of `parser_ids` whose markers it or the vocabulary contains. A format
    that no parser reads gets the null parser.
    """
    if template is None:
        return tool_parser("null")
    if not shape.takes_calls:
        return _by_markers(parser_ids, template, vocabulary)
    parsers = [tool_parser(parser_id) for parser_id in dict.fromkeys((*parser_ids, *TOOL_PARSER_IDS))]
    leftovers = [
        (left, index)
        for index, parser in enumerate(parsers)
        if (left := _num_unparsed_chars(parser, shape)) is not None
    ]
    return parsers[min(leftovers)[1]] if leftovers else tool_parser("null")


def with_native_formats(
    parser: ToolParser, parser_ids: Sequence[str], template: ChatTemplate | None, vocabulary: Vocabulary
) -> ToolParser:
    """Let a parser also read the family's own formats.

    Only formats whose markers template or vocabulary contain. A model whose prompt shows another format,
    since its template does not support tools, may still call in the one it was trained on.
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
    """Choose the first parser whose markers the template renders, or contains.

    Without one, the first with another opener there, whose opener ends a prompt, or is a token.
    """
    parsers = [thinking_parser(parser_id) for parser_id in THINKING_PARSER_IDS if parser_id != "null"]
    rendered = "" if template is None else _rendered_thinking(template)
    source = "" if template is None else template.source + rendered
    for text in (rendered, source):
        for parser in parsers:
            if all(marker in text for marker in (parser.opener, parser.closer, *parser.identifying_texts)):
                return parser
    for parser in parsers:
        markers = parser.closer, *parser.identifying_texts
        if any(opener in source for opener in parser.other_openers) and all(
            map(source.__contains__, markers)
        ):
            return parser
    known = (
        parser
        for parser in parsers
        if parser.opener
        and not parser.identifying_texts
        and (source.rstrip().endswith(parser.opener) or vocabulary.id_of(parser.opener) is not None)
    )
    return next(known, thinking_parser("null"))


def thinking_source(template: ChatTemplate) -> str:
    """Return template source, a rendered thought, and a prompt at the end."""
    return template.source + _rendered_thinking(template)


def _rendered_thinking(template: ChatTemplate) -> str:
    """Return a rendered thought, and a prompt at the end.

    Some templates build their markers from pieces, or contain those of other models to strip them.
    """
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


def _num_unparsed_chars(parser: ToolParser, shape: TemplateShape) -> int | None:
    """Return the length of the text beside the parsed call.

    None if no call was parsed.
    """
    generated = extract(shape.generated_call, tools=parser, tool_specs=(PROBE_TOOL,))
    for message in (generated, extract(shape.rendered_call, tools=parser, tool_specs=(PROBE_TOOL,))):
        for call in message.tool_calls:
            if call.name == PROBE_CALL_NAME and arguments_value(call.arguments) == PROBE_CALL_ARGUMENTS:
                return len(generated.text)
    return None


def _by_markers(parser_ids: Sequence[str], template: ChatTemplate, vocabulary: Vocabulary) -> ToolParser:
    """Return the parser with the most known markers."""

    def num_known(parser: ToolParser) -> int:
        return _num_known_markers(parser, template.source, vocabulary)

    parsers = [tool_parser(parser_id) for parser_id in parser_ids]
    best = max(parsers, key=num_known, default=tool_parser("null"))
    return best if num_known(best) else tool_parser("null")


def _num_known_markers(parser: ToolParser, source: str, vocabulary: Vocabulary) -> int:
    """Count the markers that template or vocabulary contain.

    0 unless the opener and all inner markers are among them.
    """
    known = [marker for marker in parser.markers if _is_known(marker, source, vocabulary)]
    return len(known) if parser.opener and {parser.opener, *parser.inner_markers} <= set(known) else 0


def _is_known(marker: str, source: str, vocabulary: Vocabulary) -> bool:
    return marker in source or vocabulary.id_of(marker) is not None
