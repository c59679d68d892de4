"""Parsers of generated text: formats declare markers, one machine parses.

Parses on the front's event loop; a template's format is detected in preparation processes. Knows no tokens
and no models.
"""

from mlxctl.formats.parsers.call_writer import write_calls
from mlxctl.formats.parsers.declarations import Closing, ThinkingParser, ToolParser, combined
from mlxctl.formats.parsers.machine import AnswerMachine, LogprobsBetween, extract
from mlxctl.formats.parsers.registry import THINKING_PARSER_IDS, TOOL_PARSER_IDS, thinking_parser, tool_parser
from mlxctl.formats.parsers.response_template.reading import (
    RESPONSE_TEMPLATE_ID,
    TemplateParsers,
    read_response_template,
)

__all__ = [
    "RESPONSE_TEMPLATE_ID",
    "THINKING_PARSER_IDS",
    "TOOL_PARSER_IDS",
    "AnswerMachine",
    "Closing",
    "LogprobsBetween",
    "TemplateParsers",
    "ThinkingParser",
    "ToolParser",
    "combined",
    "extract",
    "read_response_template",
    "thinking_parser",
    "tool_parser",
    "write_calls",
]
