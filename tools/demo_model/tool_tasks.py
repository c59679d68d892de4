"""Generators of samples with tools."""

import json
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tools.demo_model import tasks
from tools.demo_model.conversation import (
    Message,
    Sample,
    ToolCall,
    assistant,
    assistant_calls,
    tool_result,
    user,
)
from tools.demo_model.lexicon import Lexicon


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRequest:
    """A tool, and a function that draws a question for it."""

    schema: dict[str, Any]
    ask: Callable[[], tuple[str, ToolCall]]


@cache
def _known_tools() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    tools = tomllib.loads((Path(__file__).parent / "tools.toml").read_text(encoding="utf-8"))["tool"]
    return [tool for tool in tools if not tool.get("held_out")], [
        tool for tool in tools if tool.get("held_out")
    ]


def known_tool(lexicon: Lexicon) -> ToolRequest:
    """Draw a realistic tool from tools.toml, by the lexicon's side."""
    tool = lexicon.dice.choice(_known_tools()[lexicon.held_out])
    required = [argument for argument in tool["arguments"] if not argument[3].startswith("?")]
    optional = [
        argument for argument in tool["arguments"] if argument[3].startswith("?") and lexicon.chance(0.6)
    ]
    schema = _schema(
        lexicon,
        tool["name"],
        tool["description"],
        [*required, *optional],
        [argument[0] for argument in required],
    )

    def ask() -> tuple[str, ToolCall]:
        values = {name: lexicon.value(kind) for name, _, _, kind in required}
        question = lexicon.dice.choice(tool["asks"]).format(**values)
        return lexicon.form("before_requests") + question, ToolCall(name=tool["name"], arguments=values)

    return ToolRequest(schema=schema, ask=ask)


def invented_tool(lexicon: Lexicon) -> ToolRequest:
    """Draw a tool with made-up name, argument and purpose.

    It cannot be memorized.
    """
    verb = lexicon.pick("verbs")
    noun = lexicon.pick("topics") if lexicon.chance(0.5) else lexicon.noun()
    name = _tool_name(lexicon, verb, noun)
    argument = lexicon.pick("argument_names") if lexicon.chance(0.7) else lexicon.invented()
    kind = lexicon.dice.choice(("city", "city", "word", "phrase", "name", "code", "title", "number", "path"))
    preposition = lexicon.dice.choice(("of", "in", "for", "at", "from", "with"))
    described = lexicon.form("tool_descriptions").format(
        verb=verb.capitalize(), noun=noun, preposition=preposition, argument=argument
    )
    arguments = [[argument, "integer" if kind == "number" else "string", f"The {argument}", kind]]
    arguments += [
        [lexicon.pick("argument_names"), "string", f"Optional {lexicon.noun()}", "?word"]
        for _ in range(lexicon.dice.choice((0, 0, 0, 1, 2)))
    ]
    schema = _schema(lexicon, name, described, arguments, [argument])

    def ask() -> tuple[str, ToolCall]:
        value = lexicon.value(kind)
        question = lexicon.form("tool_requests").format(
            verb=verb, noun=noun, preposition=preposition, slot=value
        )
        question = question[0].upper() + question[1:] if lexicon.chance(0.8) else question
        return lexicon.form("before_requests") + question, ToolCall(name=name, arguments={argument: value})

    return ToolRequest(schema=schema, ask=ask)


def _tool_name(lexicon: Lexicon, verb: str, noun: str) -> str:
    style = lexicon.dice.choice(
        ("snake", "snake", "snake", "camel", "noun_first", "noun", "kebab", "invented")
    )
    return {
        "snake": f"{verb}_{noun}",
        "camel": f"{verb}{noun.capitalize()}",
        "noun_first": f"{noun}_{verb}",
        "noun": noun.capitalize(),
        "kebab": f"{verb}-{noun}",
        "invented": lexicon.invented(),
    }[style]


def _schema(
    lexicon: Lexicon, name: str, description: str, arguments: list[list[str]], required: list[str]
) -> dict[str, Any]:
    """Write the tool as clients do.

    With or without descriptions, titles, strictness, in the orders that occur.
    """
    described, titled = lexicon.chance(0.7), lexicon.chance(0.1)
    shown = list(arguments)
    if lexicon.chance(0.3):
        lexicon.dice.shuffle(shown)
    properties: dict[str, Any] = {}
    for argument, json_type, about, kind in shown:
        entry: dict[str, Any] = {"type": json_type}
        if titled:
            entry = {"title": argument.capitalize(), **entry}
        if kind == "?unit" and lexicon.chance(0.5):
            entry["enum"] = ["celsius", "fahrenheit"]
        if described:
            entry = (
                {**entry, "description": about} if lexicon.chance(0.8) else {"description": about, **entry}
            )
        properties[argument] = entry
    parameters: dict[str, Any] = {"type": "object", "properties": properties, "required": required}
    if lexicon.chance(0.2):
        parameters["additionalProperties"] = False
    if lexicon.chance(0.1):
        parameters = {"type": "object", "required": required, "properties": properties}
    function: dict[str, Any] = {"name": name, "description": description, "parameters": parameters}
    if lexicon.chance(0.1):
        del function["description"]
    if lexicon.chance(0.1):
        function["strict"] = True
    return {"type": "function", "function": function}


def tool_requests(lexicon: Lexicon, num_tools: int) -> list[ToolRequest]:
    """Draw tools of different names."""
    found: dict[str, ToolRequest] = {}
    while len(found) < num_tools:
        need = (known_tool if lexicon.chance(0.5) else invented_tool)(lexicon)
        found.setdefault(need.schema["function"]["name"], need)
    return list(found.values())


def _calling(lexicon: Lexicon, ability: str, offered: list[ToolRequest], wanted: ToolRequest) -> Sample:
    messages = tasks.maybe_system(lexicon) + tasks.small_talk(
        lexicon, lexicon.dice.choice((0, 0, 0, 0, 0, 1))
    )
    if lexicon.chance(0.12):
        messages += _past_use(lexicon, lexicon.dice.choice(offered))
    question, call = wanted.ask()
    return Sample(
        ability=ability,
        messages=[*messages, user(question)],
        tools=[need.schema for need in offered],
        answer=call.as_text(),
        thought=f"I call {call.name}.",
        thinking=lexicon.chance(0.5),
    )


def _past_use(lexicon: Lexicon, need: ToolRequest) -> list[Message]:
    """Return an earlier question with its call, result and answer."""
    question, call = need.ask()
    result, said = result_of(lexicon)
    return [user(question), assistant_calls([call]), tool_result(result), assistant(f"The answer is: {said}")]


def call_only_tool(lexicon: Lexicon) -> Sample:
    offered = tool_requests(lexicon, 1)
    return _calling(lexicon, "call the only tool", offered, offered[0])


def choose_tool(lexicon: Lexicon) -> Sample:
    offered = tool_requests(lexicon, lexicon.dice.choice((2, 2, 2, 2, 3, 4)))
    return _calling(lexicon, "choose between tools", offered, lexicon.dice.choice(offered))


def call_twice(lexicon: Lexicon) -> Sample:
    """Return a question for two cities, answered by two calls."""
    tools = _known_tools()[lexicon.held_out]
    tool = lexicon.dice.choice(
        [tool for tool in tools if tool["arguments"][0][3] == "city" and len(tool["arguments"]) < 3]
    )
    argument = tool["arguments"][0]
    schema = _schema(lexicon, tool["name"], tool["description"], [argument], [argument[0]])
    one, other = lexicon.city(), lexicon.city()
    joint = lexicon.dice.choice(("{a} and {b}", "{a} and in {b}", "{a} and {b}", "both {a} and {b}")).format(
        a=one, b=other
    )
    question = lexicon.dice.choice(tool["asks"][:5]).format(**{name: joint for name, *_ in tool["arguments"]})
    calls = [ToolCall(name=tool["name"], arguments={argument[0]: city}) for city in (one, other)]
    return Sample(
        ability="two calls at once",
        messages=[*tasks.maybe_system(lexicon), user(question)],
        tools=[schema],
        answer="\n".join(call.as_text() for call in calls),
        thought=f"I call {tool['name']}.",
        thinking=lexicon.chance(0.5),
    )


def result_of(lexicon: Lexicon) -> tuple[str, str]:
    """Draw a tool result and the expected answer.

    Text as it is, JSON as a list.
    """
    if lexicon.chance(0.3):
        num_keys = lexicon.dice.choice((1, 2, 2, 3))
        keys = {lexicon.pick("topics") if lexicon.chance(0.7) else lexicon.noun() for _ in range(num_keys)}
        fields = {
            key: lexicon.dice.choice((lexicon.number, lexicon.noun, lexicon.city))() for key in sorted(keys)
        }
        return json.dumps(fields, ensure_ascii=False), ", ".join(
            f"{key}: {value}" for key, value in fields.items()
        )
    text = lexicon.form("tool_results").format(
        number=lexicon.number(), adjective=lexicon.pick("adjectives"), other=lexicon.noun(),
        phrase=lexicon.phrase(), phrase2=lexicon.phrase(), noun=lexicon.noun(), word=lexicon.word(),
        city=lexicon.city(), name=lexicon.name(), minute=lexicon.dice.randint(10, 59),
        sentence=lexicon.sentence(),
    )  # fmt: skip
    return text, text


def answer_from_result(lexicon: Lexicon) -> Sample:
    offered = tool_requests(lexicon, lexicon.dice.choice((1, 1, 1, 2)))
    question, call = lexicon.dice.choice(offered).ask()
    result, said = result_of(lexicon)
    calls, results, answer = [call], [tool_result(result)], f"The answer is: {said}"
    if lexicon.chance(0.12):
        second, said_second = result_of(lexicon)
        calls, results, answer = (
            [call, call],
            [*results, tool_result(second)],
            f"The answers are: {said}; {said_second}",
        )
    thinking = lexicon.chance(0.5)
    made = assistant_calls(calls)
    if thinking and lexicon.chance(0.5):
        made["reasoning_content"] = f"I call {call.name}."
    return Sample(
        ability="answer from a tool result",
        messages=[*tasks.maybe_system(lexicon), user(question), made, *results],
        tools=[need.schema for need in offered],
        answer=answer,
        thought="I have the result.",
        thinking=thinking,
    )


def talk_despite_tools(lexicon: Lexicon) -> Sample:
    """Return a sample whose question needs none of its tools."""
    draw = lexicon.dice.choice(
        (*[tasks.greet] * 3, tasks.who, tasks.thank, tasks.recall, tasks.echo, tasks.count, tasks.other)
    )
    plain = draw(lexicon)
    offered = tool_requests(lexicon, lexicon.dice.choice((1, 1, 2, 3)))
    messages = plain.messages
    if lexicon.chance(0.15) and draw in (tasks.thank, tasks.greet):
        messages = [*_past_use(lexicon, offered[0]), messages[-1]]
    return Sample(
        ability="no call although tools are offered",
        messages=messages,
        tools=[need.schema for need in offered],
        answer=plain.answer,
        thought=plain.thought,
        thinking=plain.thinking,
    )
