"""Tool calls of FunctionGemma: `<start_function_call>call:f{a:<escape>text<escape>}<end_function_call>`."""

from mlxctl.formats.parsers.brace_calls import brace_parser

TOOLS = brace_parser(
    "function_gemma", opener="<start_function_call>", closer="<end_function_call>", mark="<escape>"
)
