"""What a model is asked. Tools have one argument each, which only the question can tell."""

import json
from dataclasses import dataclass
from typing import Any

from mlxctl.ir import ToolSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolQuestion:
    """A question that the tool answers, and the value that its one argument has to have."""

    text: str
    tool: ToolSpec
    argument: str
    value: str


def _tool(name: str, description: str) -> ToolSpec:
    city = {"type": "string", "description": "Name of the city"}
    return ToolSpec(
        name=name, description=description, parameters={"type": "object", "properties": {"city": city}, "required": ["city"]}
    )


# Not the first verbs that come to mind: who calls these has read the offer.
_WEATHER = _tool("check_weather", "Get the weather of a city")
_TIME = _tool("show_time", "Get the time of day in a city")

TOOL_QUESTIONS = (
    ToolQuestion(text="What is the weather in Lisbon?", tool=_WEATHER, argument="city", value="Lisbon"),
    ToolQuestion(text="What time is it in Oslo?", tool=_TIME, argument="city", value="Oslo"),
    ToolQuestion(text="What is the weather in Nairobi?", tool=_WEATHER, argument="city", value="Nairobi"),
)
"""The last is asked only when the first two were answered differently."""

CHAT_QUESTION = "Hello! Who are you?"
THINKING_QUESTION = "How many days do three weeks have?"
BATCH_QUESTIONS = ("Tell me about the sea.", "What is a mountain?")

SCHEMA_QUESTION = "Which city is the capital of France, and on which continent is it?"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "continent": {"type": "string"}},
    "required": ["city", "continent"],
    "additionalProperties": False,
}


def fits_schema(text: str) -> bool:
    """Whether a whole text is JSON that fits `SCHEMA`."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    has_keys = isinstance(value, dict) and value.keys() == set(SCHEMA["required"])
    return has_keys and all(isinstance(word, str) for word in value.values())
