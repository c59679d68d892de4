"""Chat templates see every type and listed value of a tool."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlxctl.formats.adapters.templates.tool_schemas import ShownTypes, plain_tool
from mlxctl.ir import ToolSpec, text_message

from .directories import PLAIN_TEMPLATE, QWEN_TEMPLATE, adapter_of, write_model
from .requests import ask, prompt_of

HIDDEN = ShownTypes(hidden=frozenset({"numbers", "nullable", "items.enum", "member.type", "deep.type"}))
TEXT = {"type": "string"}
COLORS = {"type": "string", "enum": ["red", "blue"]}
KIND = {"$defs": {"Kind": {**COLORS, "description": "A color."}}}
NODE = {
    "type": "object",
    "properties": {"value": {"type": "integer"}, "next": {"$ref": "#/$defs/Node"}},
    "required": ["value"],
}


def plain(parameters: Mapping[str, Any], shown: ShownTypes = HIDDEN) -> Mapping[str, Any]:
    """Return the plain parameters of a tool."""
    function = {"name": "look", "description": "Looks.", "parameters": parameters}
    result: Mapping[str, Any] = plain_tool({"type": "function", "function": function}, shown)["function"]
    return result


def plain_argument(schema: Any, shown: ShownTypes = HIDDEN, **root: Any) -> Mapping[str, Any]:
    """Return the plain schema of a tool's only argument."""
    tool = plain({"type": "object", "properties": {"it": schema}, **root}, shown)
    argument: Mapping[str, Any] = tool["parameters"]["properties"]["it"]
    return argument


@pytest.mark.parametrize(
    ("schema", "root", "expected"),
    [
        ({"$ref": "#/$defs/Kind"}, KIND, {**COLORS, "description": "A color."}),
        ({"$ref": "#/$defs/Kind", "description": "Mine."}, KIND, {**COLORS, "description": "Mine."}),
        ({"allOf": [{"$ref": "#/$defs/Kind"}]}, KIND, {**COLORS, "description": "A color."}),
        ({"$ref": "#/$defs/a~1b%20c"}, {"$defs": {"a/b c": TEXT}}, {**TEXT, "description": ""}),
        ({"const": "red"}, {}, {"type": "string", "enum": ["red"], "description": ""}),
        ({"enum": ["red", "blue"]}, {}, {**COLORS, "description": ""}),
        ({"oneOf": [{"const": "red"}, {"const": "blue"}]}, {}, {**COLORS, "description": ""}),
        ({"description": None, **TEXT}, {}, {**TEXT, "description": ""}),
        (
            {"anyOf": [TEXT, {"type": "null"}], "default": None},
            {},
            {**TEXT, "nullable": True, "description": "(type: string | null)"},
        ),
        (
            {"type": ["integer", "null"], "description": "How many."},
            {},
            {"type": "integer", "nullable": True, "description": "How many. (type: integer | null)"},
        ),
        (
            {"enum": [1, 2], "default": 1},
            {},
            {"type": "integer", "enum": [1, 2], "description": "(type: 1 | 2)"},
        ),
        (
            {"anyOf": [TEXT, {"type": "array", "items": {"type": "integer"}}]},
            {},
            {**TEXT, "description": "(type: string | integer[])"},
        ),
        (
            {"type": "array", "prefixItems": [{"type": "integer"}, TEXT]},
            {},
            {
                "type": "array",
                "items": {"type": "integer", "description": ""},
                "description": "(type: [integer, string])",
            },
        ),
        ({}, {}, {**TEXT, "description": "(type: any)"}),
    ],
)
def test_argument_gets_one_type_and_the_rest_as_description(
    schema: Any, root: Mapping[str, Any], expected: Mapping[str, Any]
) -> None:
    assert plain_argument(schema, **root) == expected


def test_alternatives_of_objects_show_all_their_members() -> None:
    first = {"type": "object", "properties": {"kind": {"const": "a"}, "x": TEXT}, "required": ["kind", "x"]}
    second = {"type": "object", "properties": {"kind": {"const": "b"}}, "required": ["kind"]}
    argument = plain_argument({"oneOf": [first, second]})
    assert argument["properties"]["kind"]["enum"] == ["a", "b"]
    assert argument["required"] == ["kind"]
    assert argument["description"] == '(type: {kind: "a"; x: string} | {kind: "b"})'


def test_recursive_reference_is_cut_off_with_a_description() -> None:
    argument = plain_argument({"$ref": "#/$defs/Node"}, ShownTypes(), **{"$defs": {"Node": NODE}})
    inner = argument["properties"]["next"]
    assert argument["properties"]["value"]["type"] == "integer"
    assert (inner["type"], inner["description"]) == ("object", "as described for Node")


@pytest.mark.parametrize(
    "root",
    [
        {"$ref": "#/definitions/R", "definitions": {"R": {"properties": {"it": COLORS}}}},
        {"anyOf": [{"properties": {"it": COLORS}}, {"properties": {"other": TEXT}}]},
        {"type": "object", "allOf": [{"properties": {"it": {"enum": ["red", "blue"]}}}]},
    ],
)
def test_root_becomes_an_object_with_properties(root: Mapping[str, Any]) -> None:
    parameters = plain(root)["parameters"]
    assert parameters["type"] == "object"
    assert parameters["properties"]["it"] == {**COLORS, "description": ""}


def test_types_are_in_the_tools_description_where_arguments_have_none() -> None:
    shown = ShownTypes(hidden=HIDDEN.hidden, shows_descriptions=False)
    tool = plain({"type": "object", "properties": {"it": {"enum": [1, 2]}, "a": TEXT}}, shown)
    assert tool["description"] == "Looks. Types of the arguments: it: 1 | 2"


def test_size_stays_bounded_where_references_multiply() -> None:
    levels = {
        f"L{n}": {"properties": {side: {"$ref": f"#/$defs/L{n + 1}"} for side in ("left", "right")}}
        for n in range(40)
    }
    argument = plain_argument({"$ref": "#/$defs/L0"}, **{"$defs": {**levels, "L40": {"type": "integer"}}})
    assert len(json.dumps(argument)) < 500_000


def test_ten_thousand_values_are_all_shown() -> None:
    values = [f"value {number}" for number in range(10_000)]
    assert plain_argument({"oneOf": [{"const": value} for value in values]})["enum"] == values


_ANY = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from(["string", "object", "array", "#", "#/$defs/A"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from([
            "type", "properties", "items", "enum", "const", "$ref", "$defs", "allOf", "anyOf", "oneOf",
            "required", "description", "default", "additionalProperties", "patternProperties", "prefixItems",
            "nullable", "A",
        ]),
        inner,
        max_size=5,
    ),
    max_leaves=25,
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(["type", "properties", "$defs", "allOf", "required"]), _ANY))
def test_any_schema_becomes_plain(parameters: dict[str, Any]) -> None:
    tool = plain(parameters)
    properties = tool["parameters"]["properties"]
    assert all(isinstance(schema["type"], str) for schema in properties.values())
    assert all(isinstance(schema["description"], str) for schema in properties.values())


# A notation of its own: names, types and strings' enums of arguments, and what objects and arrays hold.
NOTATION = """{%- macro kind(schema) -%}
{%- if schema.type == 'array' and schema['items'] -%}{{- kind(schema['items']) ~ '[]' -}}
{%- elif schema.type == 'string' and schema.enum -%}{{- schema.enum | join('|') -}}
{%- else -%}{{- schema.type.upper() -}}{%- endif -%}{%- endmacro -%}
{%- for tool in tools or [] -%}{{- '<tool_call>' ~ tool.function.name ~ ':' ~ tool.function.description -}}
{%- for name, schema in tool.function.parameters.properties.items() -%}
{{- ' ' ~ name ~ '=' ~ kind(schema) ~ ' ' ~ schema.description -}}
{%- endfor -%}{%- endfor -%}"""


@pytest.mark.parametrize(
    ("schema", "shown"),
    [
        ({"$ref": "#/$defs/Kind"}, "it=red|blue A color."),
        ({"type": "array", "items": {"$ref": "#/$defs/Kind"}}, "it=red|blue[]"),
        ({"type": "integer", "description": "How many."}, "it=INTEGER How many.<"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "it=INTEGER (type: integer | null)"),
        ({"enum": [1, 2]}, "it=INTEGER (type: 1 | 2)"),
        ({"type": "object", "properties": {"n": {"type": "integer"}}}, "it=OBJECT (type: {n?: integer})"),
        ({"type": "object", "additionalProperties": COLORS}, 'it=OBJECT (type: {[name]: "red" | "blue"})'),
    ],
)
def test_types_that_a_template_hides_are_described(tmp_path: Path, schema: Any, shown: str) -> None:
    adapter = adapter_of(write_model(tmp_path, template=NOTATION + "\n" + PLAIN_TEMPLATE))
    tool = ToolSpec(name="look", parameters={"type": "object", "properties": {"it": schema}, **KIND})
    assert shown in prompt_of(adapter, ask(text_message("user", "Hi"), tools=(tool,)))


def test_template_that_writes_whole_schemas_gets_them_as_they_are(tmp_path: Path) -> None:
    parameters = {"type": "object", "properties": {"it": {"$ref": "#/$defs/Kind"}}, **KIND}
    adapter = adapter_of(write_model(tmp_path, template=QWEN_TEMPLATE))
    prompt = prompt_of(adapter, ask(tools=(ToolSpec(name="look", parameters=parameters),)))
    assert json.dumps(parameters) in prompt


def test_template_of_bare_functions_gets_them(tmp_path: Path) -> None:
    template = NOTATION.replace("tool.function.", "tool.") + "\n" + PLAIN_TEMPLATE
    adapter = adapter_of(write_model(tmp_path, template=template))
    tool = ToolSpec(name="look", parameters={"type": "object", "properties": {"it": {"type": "integer"}}})
    assert "<tool_call>look: it=INTEGER" in prompt_of(adapter, ask(tools=(tool,)))
