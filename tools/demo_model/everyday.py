"""Generators of what people ask first: the time, sums, the weather."""

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from mlxctl.chat.tools.demo import DEMO_TOOLS
from tools.demo_model import tasks
from tools.demo_model.conversation import Message, Sample, ToolCall, assistant_calls, tool_result, user
from tools.demo_model.lexicon import Lexicon

CHAT_TOOLS = {
    spec.name: {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    for spec in DEMO_TOOLS
}
"""The functions that `mlxctl chat --tools` offers to the demo model, by name."""
_OPERATORS = {"plus": "+", "minus": "-", "times": "*", "multiplied by": "*", "divided by": "/"}
_DECLINED = "I cannot do that."
_LAST_SECOND = 4_000_000_000
_ZONES = ("UTC", "CET", "CEST", "EST", "EDT", "PST", "PDT", "JST", "GMT", "BST", "+03", "IST")
_SKIES = ("sunny", "cloudy", "rainy", "windy", "clear")


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolbox:
    """Offered functions.

    `clock`, `calculator` and `weather` are the name and the argument of a function.
    """

    functions: list[dict[str, Any]]
    clock: tuple[str, str] | None = None
    calculator: tuple[str, str] | None = None
    weather: tuple[str, str] | None = None
    clock_needs_place: bool = False

    def schemas(self) -> list[dict[str, Any]]:
        return [{"type": "function", "function": function} for function in self.functions]


def toolbox(lexicon: Lexicon) -> Toolbox:
    """Draw the tools of `mlxctl chat --tools`, or those of examples."""
    if lexicon.chance(0.45):
        return Toolbox(
            functions=[CHAT_TOOLS["calculator"], CHAT_TOOLS["get_time"]],
            clock=("get_time", "timezone"),
            calculator=("calculator", "expression"),
        )
    kinds = lexicon.dice.sample(("clock", "calculator", "weather"), k=lexicon.dice.choice((1, 1, 2, 2, 3)))
    drawn = {kind: _function(lexicon, kind) for kind in kinds}
    called = {kind: (function["name"], argument) for kind, (function, argument) in drawn.items()}
    clock = drawn.get("clock")
    return Toolbox(
        functions=[function for function, _ in drawn.values()],
        clock=called.get("clock"),
        calculator=called.get("calculator"),
        weather=called.get("weather"),
        clock_needs_place=clock is not None and bool(clock[0]["parameters"]["required"]),
    )


def _function(lexicon: Lexicon, kind: str) -> tuple[dict[str, Any], str]:
    """Draw a function of a kind, and the name of its argument."""
    if kind == "clock" and lexicon.chance(0.3):
        return CHAT_TOOLS["get_time"], "timezone"
    if kind == "calculator" and lexicon.chance(0.5):
        return CHAT_TOOLS["calculator"], "expression"
    name, description = lexicon.form(f"{kind}_tools").split(": ")
    if kind != "calculator" and lexicon.chance(0.5):
        name = f"{lexicon.pick('verbs')}_{'time' if kind == 'clock' else 'weather'}"
    argument, about = lexicon.form(f"{kind}_arguments").split(": ")
    entry = {"type": "string"} | ({"description": about} if lexicon.chance(0.7) else {})
    properties: dict[str, Any] = {argument: entry}
    if kind == "weather" and lexicon.chance(0.3):
        properties["unit"] = {"type": "string", "enum": ["celsius", "fahrenheit"]}
    required = [] if kind == "clock" and lexicon.chance(0.5) else [argument]
    parameters: dict[str, Any] = {"type": "object", "properties": properties, "required": required}
    if lexicon.chance(0.2):
        parameters["additionalProperties"] = False
    return {"name": name, "description": description, "parameters": parameters}, argument


def _sample(lexicon: Lexicon, ability: str, question: str, box: Toolbox, call: ToolCall | None) -> Sample:
    """Return a sample that calls, or declines where there is no call."""
    return Sample(
        ability=ability,
        messages=[*_before(lexicon), user(_typed(lexicon, question))],
        tools=box.schemas(),
        answer=tasks.SHRUG if call is None else call.as_text(),
        thought=_DECLINED if call is None else f"I call {call.name}.",
        thinking=lexicon.chance(0.5),
    )


def _before(lexicon: Lexicon) -> list[Message]:
    messages = tasks.maybe_system(lexicon) if lexicon.chance(0.4) else []
    return messages + tasks.small_talk(lexicon, lexicon.dice.choice((0, 0, 0, 0, 0, 1)))


def _typed(lexicon: Lexicon, question: str) -> str:
    """Return the question as people type it.

    Without a capital or a full stop, or with a polite word.
    """
    if lexicon.chance(0.15):
        question = question[0].lower() + question[1:]
    if lexicon.chance(0.15):
        question = question.rstrip(".?!") or question
    if lexicon.chance(0.1):
        question = lexicon.form("before_requests") + question
    return f"{question} please" if question[-1].isalnum() and lexicon.chance(0.1) else question


def ask_the_time(lexicon: Lexicon) -> Sample:
    """Return a question for the time, here or elsewhere, or the date."""
    box = toolbox(lexicon)
    if lexicon.chance(0.5):
        question, arguments = lexicon.form("times_here", "dates_here"), {}
        can = box.clock is not None and not box.clock_needs_place
    else:
        place = _zone(lexicon)
        question = lexicon.form("times_elsewhere").format(place=place)
        arguments, can = {box.clock[1]: place} if box.clock else {}, box.clock is not None
    call = ToolCall(name=box.clock[0], arguments=arguments) if can and box.clock else None
    return _sample(lexicon, "the time", question, box, call)


def _zone(lexicon: Lexicon) -> str:
    if lexicon.chance(0.85):
        return lexicon.city()
    region = lexicon.dice.choice(("Europe", "America", "Asia", "Africa", "Australia"))
    return f"{region}/{lexicon.city().replace(' ', '_')}"


def ask_for_a_sum(lexicon: Lexicon) -> Sample:
    """Return a sum; its words become signs, its signs are copied."""
    box = toolbox(lexicon)
    question, expression = _sum(lexicon)
    call = (
        ToolCall(name=box.calculator[0], arguments={box.calculator[1]: expression})
        if box.calculator
        else None
    )
    return _sample(lexicon, "a sum", question, box, call)


def _sum(lexicon: Lexicon) -> tuple[str, str]:
    """Draw a question and the expression for a calculator."""
    first, second, third = _number(lexicon), _number(lexicon), _number(lexicon)
    if lexicon.chance(0.5):
        return _sum_in_words(lexicon, first, second)
    sign, other = lexicon.dice.choice("+-*/"), lexicon.dice.choice("+-*/")
    between = lexicon.dice.choice(("", " "))
    expression = f"{first}{between}{sign}{between}{second}"
    if lexicon.chance(0.6):
        expression = lexicon.dice.choice(
            (
                f"({expression}) {other} {third}",
                f"{expression} {other} {third}",
                f"{first} {sign} ({second} {other} {third})",
            )
        )
    elif lexicon.chance(0.1):
        expression = f"{first} ** {lexicon.dice.randint(2, 12)}"
    return lexicon.form("sums_in_signs").format(e=expression), expression


def _sum_in_words(lexicon: Lexicon, first: str, second: str) -> tuple[str, str]:
    if lexicon.chance(0.3):
        word = lexicon.dice.choice(list(_OPERATORS))
        return (
            lexicon.form("sums_in_words").format(a=first, word=word, b=second),
            f"{first} {_OPERATORS[word]} {second}",
        )
    question, expression = lexicon.form("sums_by_name").split(" => ")
    return question.format(a=first, b=second), expression.format(a=first, b=second)


def _number(lexicon: Lexicon) -> str:
    if lexicon.chance(0.08):
        return f"{lexicon.dice.randint(0, 99)}.{lexicon.dice.randint(1, 99)}"
    return str(lexicon.dice.randrange(10 ** lexicon.dice.choice((1, 1, 2, 2, 2, 3, 4))))


def ask_for_the_weather(lexicon: Lexicon) -> Sample:
    box = toolbox(lexicon)
    if lexicon.chance(0.15):
        return _sample(lexicon, "the weather", lexicon.form("weather_nowhere"), box, None)
    place = lexicon.city()
    question = lexicon.form("weather_somewhere").format(place=place)
    call = ToolCall(name=box.weather[0], arguments={box.weather[1]: place}) if box.weather else None
    return _sample(lexicon, "the weather", question, box, call)


def ask_for_something_else(lexicon: Lexicon) -> Sample:
    """Return a question that needs another tool, or a real model."""
    question = lexicon.form("beyond_demo").format(
        path=lexicon.path(), noun=lexicon.noun(), other=lexicon.noun(), country=lexicon.pick("countries"),
        language=lexicon.pick("languages"), city=lexicon.city(), name=lexicon.name(),
        topic=lexicon.pick("topics"),
    )  # fmt: skip
    sample = _sample(lexicon, "something else", question, toolbox(lexicon), None)
    return replace(sample, tools=None) if lexicon.chance(0.35) else sample


def ask_without_tools(lexicon: Lexicon) -> Sample:
    """Return a question for a tool where there is none."""
    sample = lexicon.dice.choice((ask_the_time, ask_for_a_sum, ask_for_a_sum, ask_for_the_weather))(lexicon)
    return replace(sample, ability="without tools", tools=None, answer=tasks.SHRUG, thought=_DECLINED)


def talk(lexicon: Lexicon) -> Sample:
    """Return small talk with tools that it does not need."""
    draw = lexicon.dice.choice(
        (
            tasks.greet,
            tasks.greet,
            tasks.who,
            tasks.who,
            tasks.thank,
            tasks.count,
            tasks.echo,
            tasks.echo,
            tasks.story,
            tasks.acknowledge,
        )
    )
    plain = draw(lexicon)
    return replace(plain, ability="small talk beside tools", tools=toolbox(lexicon).schemas())


def tell_the_result(lexicon: Lexicon) -> Sample:
    """Return an answer from a result as these tools write it."""
    draw, result = lexicon.dice.choice(
        ((ask_the_time, _clock_result), (ask_for_a_sum, _number), (ask_for_the_weather, _weather_result))
    )
    sample = draw(lexicon)
    while sample.answer == tasks.SHRUG:
        sample = draw(lexicon)
    text = result(lexicon)
    body = json.loads(sample.answer.removeprefix("<tool_call>\n").removesuffix("\n</tool_call>"))
    call = assistant_calls([ToolCall(name=body["name"], arguments=body["arguments"])])
    return replace(
        sample,
        ability="a result",
        messages=[*sample.messages, call, tool_result(text)],
        answer=f"The answer is: {text}",
        thought="I have the result.",
    )


def _clock_result(lexicon: Lexicon) -> str:
    moment = datetime.fromtimestamp(0, UTC) + timedelta(seconds=lexicon.dice.randrange(_LAST_SECOND))
    return f"{moment:%A, %Y-%m-%d %H:%M:%S} {lexicon.dice.choice(_ZONES)}"


def _weather_result(lexicon: Lexicon) -> str:
    return f"{lexicon.dice.randint(-20, 40)} degrees and {lexicon.dice.choice(_SKIES)}"
