"""The parsers of a model whose capabilities are known already: nothing is looked for.

Unknown ids are as good as nothing known.
"""

from mlxctl.ir import ModelCapabilities
from mlxctl.parsers import (
    THINKING_PARSER_IDS,
    TOOL_PARSER_IDS,
    ThinkingParser,
    ToolParser,
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
