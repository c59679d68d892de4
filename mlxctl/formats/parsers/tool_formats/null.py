"""The parsers of models without tool calls and thinking."""

from mlxctl.formats.parsers.declarations import ThinkingParser, ToolParser

TOOLS = ToolParser(id="null")
THINKING = ThinkingParser(id="null")
