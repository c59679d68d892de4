"""The parsers of models that neither call tools nor think aloud: every text stays text."""

from mlxctl.parsers.declarations import ThinkingParser, ToolParser

TOOLS = ToolParser(id="null")
THINKING = ThinkingParser(id="null")
