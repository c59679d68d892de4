"""Tools as plain text, for templates without tool support."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_TOOL_PROMPT = """You can call these tools:

{tools}

To call one, write exactly this, and wait for its result:

{example}

Put in the tool's name and its arguments; you may write several calls. \
If no tool helps, answer without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextCallFormat:
    """One way to write calls into a conversation.

    `parser_id` is the format that parses them.
    """

    parser_id: str
    example: str
    write_call: Callable[[Mapping[str, Any]], str]
    result: str

    def write_result(self, content: str) -> str:
        """Return a tool result as the text of a user message."""
        return self.result.replace("{content}", content)

    def tool_definitions(self, tools: Sequence[Mapping[str, Any]]) -> str:
        """Return the part of the system prompt that defines the tools."""
        definitions = "\n".join(json.dumps(tool["function"], ensure_ascii=False) for tool in tools)
        return _TOOL_PROMPT.replace("{example}", self.example).replace("{tools}", definitions)


def _write_tags(function: Mapping[str, Any]) -> str:
    body = json.dumps({"name": function["name"], "arguments": function["arguments"]}, ensure_ascii=False)
    return f"<tool_call>\n{body}\n</tool_call>"


def _write_code(function: Mapping[str, Any]) -> str:
    arguments = function["arguments"]
    if not isinstance(arguments, dict):
        arguments_text = repr(arguments)
    elif all(key.isidentifier() for key in arguments):
        arguments_text = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
    else:
        arguments_text = f"**{arguments!r}"
    return f"```tool_code\n{function['name']}({arguments_text})\n```"


TAGS = TextCallFormat(
    parser_id="hermes_json",
    example='<tool_call>\n{"name": "the_tool", "arguments": {"an_argument": "its value"}}\n</tool_call>',
    write_call=_write_tags,
    result="<tool_response>\n{content}\n</tool_response>",
)
TOOL_CODE = TextCallFormat(
    parser_id="gemma",
    example='```tool_code\nthe_tool(an_argument="its value")\n```',
    write_call=_write_code,
    result="```tool_output\n{content}\n```",
)


def text_call_format(parser_id: str) -> TextCallFormat:
    """Return the text format of a parser; tags for parsers without one."""
    return TOOL_CODE if parser_id == TOOL_CODE.parser_id else TAGS
