"""Questions and tools for probing tool calls.

Each tool has one argument, whose value is in the question.
"""

import json
from dataclasses import dataclass
from typing import Any

from mlxctl.ir import ToolSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolQuestion:
    """A question for a tool, and the expected value of its argument."""

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


# Uncommon verbs: a model that uses them has read the tool definitions.
_WEATHER = _tool("check_weather", "Get the weather of a city")
_TIME = _tool("show_time", "Get the time of day in a city")

TOOL_QUESTIONS = (
    ToolQuestion(text="What is the weather in Lisbon?", tool=_WEATHER, argument="city", value="Lisbon"),
    ToolQuestion(text="What time is it in Oslo?", tool=_TIME, argument="city", value="Oslo"),
    ToolQuestion(text="What is the weather in Nairobi?", tool=_WEATHER, argument="city", value="Nairobi"),
)
"""The last is used only when the first two are judged differently."""

CHAT_QUESTION = "Hello! Who are you?"
THINKING_QUESTIONS = (
    "How many days do three weeks have?",
    (
        "A train leaves at 9:40 and arrives at 13:05. It stands still for 25 minutes on the way. How long "
        "does it move?"
    ),
)
"""The second is used only when the template supports thinking and the first answer has none."""
BATCH_QUESTIONS = ("Tell me about the sea.", "What is a mountain?")

COLOR_QUESTION = "Which color is this image? Answer with one word."
COLORS_QUESTION = "Which colors are these two images, in their order? Answer with two words."
VIDEO_QUESTION = "Which two colors does this video show, in their order? Answer with two words."
COLORS = {"red": (220, 20, 20), "green": (20, 150, 40), "blue": (20, 40, 220)}
"""RGB values of the images by the right answer."""

SPOKEN_SENTENCES = ("Please open the window.", "My brother likes music.", "Our garden is green.")
"""Sentences for transcription; no word is in two of them or sounds like another."""
SPOKEN_QUESTION = "Which words are spoken? Answer with these words only."

EMBEDDING_TEXTS = (
    "The ferry to the island leaves at noon.",
    "Bread.",
    (
        "Travelers who cross the mountains in winter need warm clothes, a map, and enough to eat for at "
        "least three days."
    ),
)
"""Texts of different lengths, so that all but one are padded in a batch."""

RERANKING_PAIRS = (
    ("When does the ferry leave?", "The ferry to the island leaves at noon every day."),
    ("How is bread made?", "Bread is baked from a dough of flour, water, salt and yeast."),
    ("What is the capital of Japan?", "Tokyo is the capital and the largest city of Japan."),
)
"""Queries, each with the one document that answers it."""

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
"""Every value is bounded, so that a constrained answer ends."""


def fits_schema(text: str) -> bool:
    """Whether a complete text is JSON that fits `SCHEMA`."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    if not isinstance(value, dict) or value.keys() != set(SCHEMA["required"]):
        return False
    city, continent = value["city"], value["continent"]
    return isinstance(city, str) and len(city) <= _MAX_CITY_CHARS and continent in _CONTINENTS
