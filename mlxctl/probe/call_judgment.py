"""Judgment of tool calls in an answer. Pure.

A call is right when it names the offered tool and its argument has the value of the question. A wrong name or
value is made up; the same call without offered tools shows that it is a guess.
"""

import json
from collections.abc import Sequence
from typing import Literal

from mlxctl.ir import Message, ToolCallPart
from mlxctl.probe.questions import ToolQuestion

CallJudgment = Literal["called", "made_up", "no_call"]


def judge(message: Message, question: ToolQuestion) -> CallJudgment:
    """Judge the tool calls of a parsed answer."""
    calls = message.tool_calls
    if not calls:
        return "no_call"
    return "called" if all(is_correct(call, question) for call in calls) else "made_up"


def is_correct(call: ToolCallPart, question: ToolQuestion) -> bool:
    """Whether the call answers the question.

    The argument may be more precise than the expected value (`Oslo, Norway`).
    """
    try:
        arguments = json.loads(call.arguments)
    except ValueError:
        return False
    if call.name != question.tool.name or not isinstance(arguments, dict):
        return False
    value = arguments.get(question.argument)
    return isinstance(value, str) and question.value.casefold() in value.casefold()


def can_call_tools(judgments: Sequence[CallJudgment]) -> bool:
    """Whether more answers have a right call than a made-up one."""
    return judgments.count("called") > judgments.count("made_up")


def is_undecided(judgments: Sequence[CallJudgment]) -> bool:
    """Whether another question would decide."""
    return 0 < judgments.count("called") == judgments.count("made_up")
