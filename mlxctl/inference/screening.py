"""Applies the rules of a call to its texts.

Event-loop thread only.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from mlxctl.inference.call_context import CallContext
from mlxctl.inference.preparation import PackedRequest, PreparationPool, jobs
from mlxctl.inference.preparation.packed_request import PackedTexts
from mlxctl.inference.text_rules import TextFilter
from mlxctl.ir.errors import GuardrailMatched
from mlxctl.ir.timed_phases import timed

Content = TypeVar("Content", PackedRequest, PackedTexts, str)


@dataclass(frozen=True, slots=True)
class Screened(Generic[Content]):
    """What a model may read. Only `screen` creates it."""

    content: Content


async def screen(
    content: Content, call: CallContext, *, model: str, preparation: PreparationPool
) -> Screened[Content]:
    """Return a request's content as the rules for `model` leave it.

    `model` is the own name. Raises GuardrailMatched, InvalidRequest, QueueFull.
    """
    if call.text_rules is None:
        return Screened(content)
    rules = call.text_rules()
    if not rules.applies("input", model):
        return Screened(content)
    num_bytes = len(content) if isinstance(content, str) else content.num_bytes
    with timed("guardrails"):
        try:
            # A regular expression of the operator may take long on a text that a caller chooses.
            allowed, verdict = await preparation.run(jobs.screen, rules.screen, content, num_bytes=num_bytes)
        except GuardrailMatched:
            call.record.record_guardrail("refused")
            raise
    if verdict is not None:
        call.record.record_guardrail(verdict)
    return Screened(content if allowed is None else allowed)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputRules:
    """Rules for the texts of an answer; `on_verdict` records what they did."""

    text_filter: Callable[[], TextFilter]
    on_verdict: Callable[[str], None]


def output_rules(model: str, call: CallContext) -> OutputRules | None:
    """Return the rules for what a model writes.

    `model` is the own name. None without rules.
    """
    if call.text_rules is None:
        return None
    rules = call.text_rules()
    if not rules.applies("output", model):
        return None
    return OutputRules(text_filter=rules.text_filter, on_verdict=call.record.record_guardrail)
