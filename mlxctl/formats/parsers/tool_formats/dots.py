"""Tool calls of dots: `<invoke>` tags or a JSON object in `<dots_function_call>`."""

from mlxctl.formats.parsers.invoke_tags import invoke_parser

TOOLS = invoke_parser("dots", opener="<dots_function_call>", closer="</dots_function_call>", takes_json=True)
