"""Which parsers there are, by the id under which they are stored. Imported on demand: one row per parser.

The order of the tool parsers is the order in which a model's template is tried against them.
"""

from importlib import import_module

from mlxctl.parsers.declarations import ThinkingParser, ToolParser

_TOOLS = {
    "hermes_json": "mlxctl.parsers.hermes_json",
    "null": "mlxctl.parsers.null",
}

_THINKING = {
    "think_tag": "mlxctl.parsers.think_tag",
    "null": "mlxctl.parsers.null",
}

TOOL_PARSER_IDS = tuple(_TOOLS)
THINKING_PARSER_IDS = tuple(_THINKING)


def tool_parser(parser_id: str) -> ToolParser:
    """Return the tool parser with this id; raises KeyError if there is none."""
    parser: ToolParser = import_module(_TOOLS[parser_id]).TOOLS
    return parser


def thinking_parser(parser_id: str) -> ThinkingParser:
    """Return the thinking parser with this id; raises KeyError if there is none."""
    parser: ThinkingParser = import_module(_THINKING[parser_id]).THINKING
    return parser
