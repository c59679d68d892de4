"""Whether an answer holds the call that was asked for. Pure.

A call counts when the tool is the one on offer and the argument is what the question said; a name or a value
that was made up does not, and the same call when nothing is offered shows that it is a guess.
"""

import json
from collections.abc import Sequence
from typing import Literal

from mlxctl.ir import Message, ToolCallPart
from mlxctl.probe.questions import ToolQuestion

Judgement = Literal["called", "made_up", "silent"]


def judge(message: Message, question: ToolQuestion) -> Judgement:
    """Judge what was read from an answer."""
    calls = message.tool_calls
    if not calls:
        return "silent"
    return "called" if all(is_right(call, question) for call in calls) else "made_up"


def is_right(call: ToolCallPart, question: ToolQuestion) -> bool:
    """Whether this call answers the question: a place may be told more precisely (`Oslo, Norway`), but not
    another one.
    """
    try:
        arguments = json.loads(call.arguments)
    except ValueError:
        return False
    if call.name != question.tool.name or not isinstance(arguments, dict):
        return False
    value = arguments.get(question.argument)
    return isinstance(value, str) and question.value.casefold() in value.casefold()


def is_credited(judgements: Sequence[Judgement]) -> bool:
    """Whether a model with these answers can call tools: there are more right calls than made-up ones."""
    return judgements.count("called") > judgements.count("made_up")


def is_undecided(judgements: Sequence[Judgement]) -> bool:
    """Whether one more question would tell."""
    return 0 < judgements.count("called") == judgements.count("made_up")
