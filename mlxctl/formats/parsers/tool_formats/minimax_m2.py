"""Tool calls of MiniMax M2: `<invoke>` tags in `<minimax:tool_call>`."""

from mlxctl.formats.parsers.invoke_tags import invoke_parser

TOOLS = invoke_parser("minimax_m2", opener="<minimax:tool_call>", closer="</minimax:tool_call>")
