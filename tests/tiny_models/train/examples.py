"""Training examples: conversations with their expected completion.

Independent of formats.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from mlxctl.ir import (
    GenerationRequest,
    Message,
    TextPart,
    ThinkingOptions,
    ToolCallPart,
    ToolResultPart,
    ToolSpec,
    text_message,
)

from .lexicon import Lexicon

_QUESTIONS = (
    "What is the {topic} in {place}?",
    "What is the {topic} in {place}?",
    "What {topic} is it in {place}?",
    "What {topic} is it in {place}?",
    "How is the {topic} in {place}?",
    "Tell me the {topic} in {place}.",
    "What's the {topic} in {place} now?",
    "I need the {topic} for {place}, please.",
    "{place}: {topic}?",
    "Please tell me the {topic} in {place} today.",
)
_TALK = {
    "Hello": "Hello! How can I help?",
    "Hello!": "Hello! How can I help?",
    "Hi": "Hello! How can I help?",
    "Hi there": "Hello! How can I help?",
    "Hello, how are you?": "Hello! How can I help?",
    "Good morning": "Hello! How can I help?",
    "Who are you?": "I am a small model.",
    "Hello! Who are you?": "I am a small model.",
    "How many days do three weeks have?": "Three weeks have 21 days.",
    "What are you?": "I am a small model.",
    "Thank you": "You are welcome.",
    "Thanks!": "You are welcome.",
    "Goodbye": "Goodbye!",
    "Bye": "Goodbye!",
}
PHRASES = (
    "What is the ", "Tell me the ", "How is the ", "What's the ", "I need the ", " is it in ", " in ",
    " for ", ", please.", " now?", " today.", "Please tell me the ", "Gets the ", "Get the ", "Name of the ",
    " of a city", " of day in a city", " in a city.", " of a place.", "I cannot look up the ",
    "The answer is: ",
)  # fmt: skip
"""Frequent phrases: one token each, which halves the length of conversations."""
_SYSTEMS = (
    "You are a helpful assistant.",
    "Be brief.",
    "You can call tools.",
    "Answer in one sentence.",
    "Today is a good day.",
)
_DESCRIPTIONS = (
    "Gets the {topic} in a city.",
    "Get the {topic} of a city",
    "Get the {topic} of day in a city",
    "The {topic} of a place.",
)
_PARAMETERS = ("city", "city", "city", "city", "city", "place", "town", "location")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedCall:
    """The tool call that an answer should be."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One training conversation; `thought` precedes the answer of a thinking model."""

    ability: str
    messages: tuple[Message, ...]
    answer: str | ExpectedCall
    thought: str
    tools: tuple[ToolSpec, ...] = ()
    thinks: bool = True

    def request(self) -> GenerationRequest:
        """Return the request that a client would send."""
        thinking = ThinkingOptions(enabled=self.thinks)
        return GenerationRequest(model="spec", messages=self.messages, tools=self.tools, thinking=thinking)


DrawExample = Callable[[Lexicon], Example]


def call_the_only_tool(lexicon: Lexicon) -> Example:
    return _calling(lexicon, "call the only tool", 1)


def choose_between_tools(lexicon: Lexicon) -> Example:
    return _calling(lexicon, "choose between tools", lexicon.dice.choice((2, 2, 2, 3)))


def do_without_tools(lexicon: Lexicon) -> Example:
    """Return a question that needs a tool, without tools."""
    topic, place = lexicon.topics(1)[0], lexicon.place()
    return _example(
        lexicon,
        "no tools, no call",
        (_question(lexicon, topic, place),),
        f"I cannot look up the {topic}.",
        (),
    )


def talk(lexicon: Lexicon) -> Example:
    said, answer = lexicon.dice.choice(list(_TALK.items()))
    verb = lexicon.verb()
    tools = tuple(_tool(lexicon, verb, topic) for topic in lexicon.topics(lexicon.dice.choice((0, 1, 1, 2))))
    return _example(lexicon, "talk, tools or not", (text_message("user", said),), answer, tools)


def answer_from_the_result(lexicon: Lexicon) -> Example:
    """Return a conversation that ends with a tool result."""
    tools, asked, call = _draw_request(lexicon, lexicon.dice.choice((1, 1, 2)))
    result = lexicon.result()
    return _example(
        lexicon,
        "answer from the result",
        (asked, *_tool_turn(call, result)),
        f"The answer is: {result}",
        tools,
    )


def repeat(lexicon: Lexicon) -> Example:
    words = lexicon.words()
    return _example(lexicon, "repeat words", (text_message("user", f"Repeat: {words}"),), words, ())


def _calling(lexicon: Lexicon, ability: str, num_tools: int) -> Example:
    tools, asked, call = _draw_request(lexicon, num_tools)
    before = _past(lexicon) if lexicon.chance(0.15) else ()
    return _example(lexicon, ability, (*before, asked), call, tools)


def _past(lexicon: Lexicon) -> tuple[Message, ...]:
    said, answer = lexicon.dice.choice(list(_TALK.items()))
    return (text_message("user", said), text_message("assistant", answer))


def _draw_request(lexicon: Lexicon, num_tools: int) -> tuple[tuple[ToolSpec, ...], Message, ExpectedCall]:
    """Return tools, a question for one of them, and its call."""
    topics, verb = lexicon.topics(num_tools), lexicon.verb()
    tools = tuple(_tool(lexicon, verb, topic) for topic in topics)
    index = lexicon.dice.randrange(num_tools)
    place = lexicon.place()
    (parameter,) = tools[index].parameters["properties"]
    call = ExpectedCall(name=tools[index].name, arguments={parameter: place})
    return tools, _question(lexicon, topics[index], place), call


def _tool_turn(call: ExpectedCall, result: str) -> tuple[Message, Message]:
    made = ToolCallPart(id="call_1", name=call.name, arguments=json.dumps(call.arguments))
    answer = ToolResultPart(call_id="call_1", content=(TextPart(text=result),))
    return Message(role="assistant", parts=(made,)), Message(role="tool", parts=(answer,))


def _tool(lexicon: Lexicon, verb: str, topic: str) -> ToolSpec:
    """Return a tool, with or without description, required parameters and strictness."""
    parameter = lexicon.dice.choice(_PARAMETERS)
    about = (
        {"description": lexicon.dice.choice(("The {}", "Name of the {}")).format(parameter)}
        if lexicon.chance(0.4)
        else {}
    )
    schema: dict[str, Any] = {"type": "object", "properties": {parameter: {"type": "string", **about}}}
    if lexicon.chance(0.7):
        schema["required"] = [parameter]
    if lexicon.chance(0.15):
        schema["additionalProperties"] = False
    described = "" if lexicon.chance(0.2) else lexicon.dice.choice(_DESCRIPTIONS).format(topic=topic)
    has_plain_name = not described or lexicon.chance(0.4)
    name = f"{verb}_{topic}" if has_plain_name else lexicon.name()
    return ToolSpec(name=name, description=described, parameters=schema)


def _question(lexicon: Lexicon, topic: str, place: str) -> Message:
    return text_message("user", lexicon.dice.choice(_QUESTIONS).format(topic=topic, place=place))


def _example(
    lexicon: Lexicon,
    ability: str,
    messages: tuple[Message, ...],
    answer: str | ExpectedCall,
    tools: tuple[ToolSpec, ...],
) -> Example:
    system = (text_message("system", lexicon.dice.choice(_SYSTEMS)),) if lexicon.chance(0.2) else ()
    thought = f"I call {answer.name}." if isinstance(answer, ExpectedCall) else "I answer."
    return Example(
        ability=ability,
        messages=(*system, *messages),
        answer=answer,
        thought=thought,
        tools=tools,
        thinks=lexicon.chance(0.5),
    )


ALL_EXAMPLES: dict[DrawExample, float] = {
    call_the_only_tool: 17,
    choose_between_tools: 9,
    do_without_tools: 6,
    talk: 5,
    answer_from_the_result: 7,
    repeat: 7,
}


def curriculum(lexicon: Lexicon, weights: dict[DrawExample, float] = ALL_EXAMPLES) -> Iterator[Example]:
    """Yield examples without end."""
    while True:
        yield lexicon.dice.choices(list(weights), list(weights.values()))[0](lexicon)
