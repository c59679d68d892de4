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
        name=name,
        description=description,
        parameters={"type": "object", "properties": {"city": city}, "required": ["city"]},
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
THINKING_QUESTIONS = (
    "How many days do three weeks have?",
    "A train leaves at 9:40 and arrives at 13:05. It stands still for 25 minutes on the way. How long does it move?",
)
"""The second is asked only when a model whose template offers thinking did not think about the first."""
BATCH_QUESTIONS = ("Tell me about the sea.", "What is a mountain?")

COLOR_QUESTION = "Which color is this image? Answer with one word."
COLORS = {"red": (220, 20, 20), "green": (20, 150, 40), "blue": (20, 40, 220)}
"""What is shown, by the one word that is right."""

SPOKEN = ("Please open the window.", "My brother likes music.", "Our garden is green.")
"""What is said to a model that writes down what it hears.

No word is in two of them, and none sounds like another.
"""

EMBEDDED_TEXTS = (
    "The ferry to the island leaves at noon.",
    "Bread.",
    "Whoever wants to cross the mountains in winter needs warm clothes, a map, and enough to eat for at least three days.",
)
"""Of different lengths, so that all but one are padded when they are embedded together."""

SCHEMA_QUESTION = "Which city is the capital of France, and on which continent is it?"
_CONTINENTS = ["Africa", "Antarctica", "Asia", "Australia", "Europe", "North America", "South America"]
_MAX_CITY_CHARS = 40
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": _MAX_CITY_CHARS},
        "continent": {"enum": _CONTINENTS},
    },
    "required": ["city", "continent"],
    "additionalProperties": False,
}
"""Nothing in it can go on for ever: a model that is held to it comes to an end."""


def fits_schema(text: str) -> bool:
    """Whether a whole text is JSON that fits `SCHEMA`."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    if not isinstance(value, dict) or value.keys() != set(SCHEMA["required"]):
        return False
    city, continent = value["city"], value["continent"]
    return isinstance(city, str) and len(city) <= _MAX_CITY_CHARS and continent in _CONTINENTS
