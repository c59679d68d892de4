"""Merges probe findings with overrides into capabilities."""

from collections.abc import Mapping, Sequence
from typing import get_args

from mlxctl.ir import ModelCapabilities, ToolDelivery
from mlxctl.stores.overrides import Override
from mlxctl.stores.probe_findings import QUESTIONS, Finding

_DELIVERIES: tuple[ToolDelivery, ...] = get_args(ToolDelivery)


def apply_overrides(findings: Sequence[Finding], override: Override | None) -> tuple[Finding, ...]:
    """Return the findings with overrides applied, in the order of questions.

    An override replaces a finding with its evidence.
    """
    known: dict[str, Finding] = {finding.question: finding for finding in findings}
    if override is not None:
        for question in {**override.verdicts, **override.values}:
            known[question] = _overridden(question, known.get(question), override)
    return tuple(known[question] for question in QUESTIONS if question in known)


def to_capabilities(findings: Sequence[Finding]) -> ModelCapabilities:
    """Return the findings as capabilities, for loading a model."""
    known = {finding.question: finding for finding in findings}
    tools, thinking = known.get("tools"), known.get("thinking")
    delivery = tools.value.get("delivery") if tools else None
    return ModelCapabilities(
        tools=_truth(tools),
        tool_parser_id=tools.value.get("parser") if tools else None,
        tool_delivery=next(
            (known_delivery for known_delivery in _DELIVERIES if known_delivery == delivery), None
        ),
        thinking=_truth(thinking),
        thinking_parser_id=thinking.value.get("parser") if thinking else None,
    )


def _overridden(question: str, found: Finding | None, override: Override) -> Finding:
    value = {**(found.value if found else {}), **override.values.get(question, {})}
    # A configured tool parser implies tool support.
    verdict = override.verdicts.get(question, "yes")
    return Finding(question=question, verdict=verdict, reason=f"set in {override.origin}", value=value)


def _truth(finding: Finding | None) -> bool | None:
    answers: Mapping[str, bool] = {"yes": True, "no": False}
    return answers.get(finding.verdict) if finding is not None else None
