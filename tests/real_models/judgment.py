"""What is wrong with tool calls and structured output."""

from collections.abc import Mapping, Sequence
from typing import Any

import jiter
import jsonschema


def problems_of_calls(choice: Mapping[str, Any], tools: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what is wrong with the calls of a choice.

    It is one of a chat completion. The arguments of the last call may end early where `max_tokens` cut the
    answer off: of these only invented properties count.
    """
    offered = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}
    calls = [call["function"] for call in choice["message"].get("tool_calls") or ()]
    problems = []
    for call in calls:
        if call["name"] not in offered:
            problems.append(f"{call['name']} was not offered")
        else:
            is_cut = choice["finish_reason"] == "length" and call is calls[-1]
            found = problems_of(call["arguments"], offered[call["name"]], is_cut=is_cut)
            problems += [f"{call['name']}: {problem}" for problem in found]
    return problems


def problems_of(text: str, schema: Mapping[str, Any], *, is_cut: bool = False) -> list[str]:
    """Return what is wrong with a JSON text for the schema.

    A property that the schema does not list is wrong. Of a text that `is_cut` nothing else counts.
    """
    try:
        value = jiter.from_json(text.encode(), partial_mode="trailing-strings" if is_cut else "off")
    except ValueError as error:
        return [] if is_cut else [f"no JSON: {error}"]
    errors = jsonschema.Draft202012Validator(closed(schema)).iter_errors(value)
    return [error.message for error in errors if not is_cut or error.validator == "additionalProperties"]


def closed(schema: Any) -> Any:
    """Return the schema with objects closed to unlisted properties.

    An object that says itself what else it may have, or lists nothing, stays as it is.
    """
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    parts = {name: closed(part) for name, part in schema.items()}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        return {"additionalProperties": False, **parts}
    return parts
