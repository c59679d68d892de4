"""Finds what a template shows of schemas, by rendering small tools."""

import json
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

from mlxctl.formats.adapters.templates.tool_schemas import ShownTypes

RenderTool = Callable[[Mapping[str, Any]], str]
"""Renders a prompt that offers one tool; "" where the template fails."""

PROBE_NAME = "probe_of_types"
PROBE_ARGUMENT: Mapping[str, Any] = {"type": "string", "description": ""}
_BOOLEAN = {"type": "boolean", "description": ""}
_LISTED = {**PROBE_ARGUMENT, "enum": ["probe-value", "probe-other"]}
_NUMBERS = {"type": "integer", "description": "", "enum": [80_801, 80_802]}
_DESCRIPTION = "probe of a description"
# Some templates shorten a type with more characters than they like.
_MEMBER = "a_member_with_a_name_that_is_longer_than_most_names_of_arguments"
_CONTAINERS: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "member": lambda inner: _object({_MEMBER: inner}),
    "items": lambda inner: {"type": "array", "description": "", "items": inner},
    "map": lambda inner: {**_object({}), "additionalProperties": inner},
}
_PATHS = {
    "": (),
    **{name: (name,) for name in _CONTAINERS},
    **{f"{outer}.{inner}": (outer, inner) for outer, inner in product(_CONTAINERS, repeat=2)},
    "deep": ("member", "items", "member", "member"),
}
# Every keyword of a type that is lost where the schema is not written as it is.
_WHOLE = {
    "type": "object",
    "properties": {
        "subject": {"anyOf": [{"$ref": "#/$defs/Probe"}, {"type": "null"}], "default": None},
        "others": {"type": "array", "items": {"oneOf": [{"type": ["integer", "null"]}, {"const": 80_801}]}},
    },
    "required": ["subject"],
    "additionalProperties": False,
    "$defs": {"Probe": {"type": "object", "properties": {"kind": {"enum": _LISTED["enum"]}}, "allOf": [{}]}},
}


def probe_tool(argument: Mapping[str, Any]) -> dict[str, Any]:
    """Return the definition of a tool with one argument."""
    return _tool({"type": "object", "properties": {"subject": argument}, "required": []})


def shows_whole_schemas(render: RenderTool) -> bool:
    """Whether the template writes schemas as they are.

    As JSON, or as Python prints them.
    """

    def is_whole(schema: Mapping[str, Any]) -> bool:
        text = "".join(render(_tool(schema)).split())
        spellings = (json.dumps(schema), json.dumps(schema, sort_keys=True), repr(schema))
        return any("".join(spelling.split()) in text for spelling in spellings)

    return is_whole(_WHOLE) and is_whole({"$ref": "#/$defs/Whole", "$defs": {"Whole": _WHOLE}})


def find_shown_types(render: RenderTool) -> ShownTypes:
    """Return what the template shows of plain schemas."""
    hidden = set[str]()
    for path, containers in _PATHS.items():
        string, boolean, listed, numbers = (
            render(probe_tool(_inside(containers, argument)))
            for argument in (PROBE_ARGUMENT, _BOOLEAN, _LISTED, _NUMBERS)
        )
        nullable = [
            render(probe_tool(_inside(containers, {**argument, "nullable": True})))
            for argument in (PROBE_ARGUMENT, _BOOLEAN, _LISTED)
        ]
        are_shown = {
            "type": boolean != string,
            "enum": all(text in listed for text in _LISTED["enum"]),
            "numbers": all(str(number) in numbers for number in _NUMBERS["enum"]),
            "nullable": not {string, boolean, listed} & set(nullable),
        }
        hidden |= {f"{path}.{fact}".lstrip(".") for fact, is_shown in are_shown.items() if not is_shown}
    described = render(probe_tool({**PROBE_ARGUMENT, "description": _DESCRIPTION}))
    return ShownTypes(hidden=frozenset(hidden), shows_descriptions=_DESCRIPTION in described)


def _inside(containers: tuple[str, ...], argument: Mapping[str, Any]) -> Mapping[str, Any]:
    for container in reversed(containers):
        argument = _CONTAINERS[container](argument)
    return argument


def _tool(parameters: Mapping[str, Any]) -> dict[str, Any]:
    function = {"name": PROBE_NAME, "description": "A tool.", "parameters": parameters}
    return {"type": "function", "function": function}


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "description": "", "properties": dict(properties), "required": []}
