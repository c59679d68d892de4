"""Tool calls of Gemma 4: `<|tool_call>call:f{a:<|"|>text<|"|>}<tool_call|>`."""

from mlxctl.formats.parsers.brace_calls import brace_parser

TOOLS = brace_parser("gemma4", opener="<|tool_call>", closer="<tool_call|>", mark='<|"|>')
