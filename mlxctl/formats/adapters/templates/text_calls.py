"""Tools, calls and results as text, for templates that lack them."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlxctl.formats.adapters.templates.tool_schemas import ShownTypes, plain_tool
from mlxctl.formats.parsers import ToolParser, tool_parser, write_calls

_TOOL_PROMPT = """You can call these tools:

{tools}

To call one, write exactly this, and wait for its result:

{example}

Put in the tool's name and its arguments; you may write several calls. \
If no tool helps, answer without one."""
_ANY_CALL = ("name", {"argument": "value"})
_PLACEHOLDERS: Mapping[str, Any] = {
    "integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}
}  # fmt: skip
_DEFAULT_PARSER_ID = "hermes_json"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextCallFormat:
    """How calls are written into a conversation: in the format of `parser`.

    `force_call` is the parser's dialect. The parser can write calls, see `text_call_format`.
    """

    parser: ToolParser
    force_call: Callable[[str | None], str | None]

    def write_calls(self, functions: Sequence[Mapping[str, Any]]) -> str:
        """Return calls, each with `name` and `arguments`, as text."""
        calls = [(function["name"], function["arguments"]) for function in functions]
        written = write_calls(self.parser, calls, self.force_call)
        assert written is not None, "the parser of a text format can write calls"
        return written

    def write_result(self, content: str) -> str:
        """Return a tool result as the text of a user message."""
        return self.parser.result_text.replace("{content}", content)

    def tool_definitions(self, tools: Sequence[Mapping[str, Any]]) -> str:
        """Return the part of the system prompt that defines the tools."""
        definitions = "\n".join(json.dumps(tool["function"], ensure_ascii=False) for tool in tools)
        example = self.write_calls([_example_call(tools)])
        return _TOOL_PROMPT.replace("{example}", example).replace("{tools}", definitions)


def text_call_format(
    parser: ToolParser, force_call: Callable[[str | None], str | None] | None = None
) -> TextCallFormat:
    """Return the text format of a parser.

    JSON in tags for a parser that cannot write calls.
    """
    force_call = force_call or parser.forced_prefix
    if write_calls(parser, [_ANY_CALL], force_call) is None:
        parser = tool_parser(_DEFAULT_PARSER_ID)
        force_call = parser.forced_prefix
    return TextCallFormat(parser=parser, force_call=force_call)


def _example_call(tools: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return a call of an offered tool, the first that requires arguments.

    Models copy the example: a name or an argument that no tool has would come back as a call.
    """
    functions = [plain_tool(tool, ShownTypes())["function"] for tool in tools]
    function = next((each for each in functions if each["parameters"]["required"]), functions[0])
    properties, required = function["parameters"]["properties"], function["parameters"]["required"]
    arguments = {name: _placeholder(properties[name]) for name in required}
    return {"name": function["name"], "arguments": arguments}


def _placeholder(schema: Mapping[str, Any]) -> Any:
    """Return a value for a plain schema, the first of listed ones."""
    if listed := schema.get("enum"):
        return listed[0]
    if schema["type"] == "array" and "items" in schema:
        return [_placeholder(schema["items"])]
    if schema["type"] == "object":
        return {name: _placeholder(schema["properties"][name]) for name in schema["required"]}
    return _PLACEHOLDERS.get(schema["type"], "...")
