"""From attempts to offer tools to what is kept of them.

Calls that nobody reads, and answers that never came, are no no.
"""

from collections.abc import Mapping, Sequence

from mlxctl.ir import ModelCapabilities, ProbeVerdict, ToolDelivery
from mlxctl.probe.interview import Interview
from mlxctl.probe.parser_sweep import Reading
from mlxctl.probe.tags import unknown_tags
from mlxctl.probe.tool_check import Attempt, ToolCheck, Trouble
from mlxctl.stores import Finding

_OFFERED: Mapping[ToolDelivery, str] = {
    "template": "offered by the chat template",
    "injected": "written into the system prompt",
}
_TROUBLES: Mapping[Trouble, tuple[ProbeVerdict, str]] = {
    "made_up": ("no", "it calls what was not asked for"),
    "unread": ("unknown", "it seems to call in a format that no parser reads"),
    "unheard": ("unknown", "it was still thinking when it had to stop"),
    "broken": ("no", "it begins calls that cannot be read"),
    "silent": ("no", "it calls nothing"),
}


async def check_tools(interview: Interview, known: ModelCapabilities) -> tuple[Finding, ...]:
    """Offer tools and return what was found."""
    check = ToolCheck(interview, known)
    attempts = await check.attempts()
    if not attempts:
        return (Finding(question="tools", verdict="no", reason="there is no way to offer tools to it"),)
    best = attempts[-1]
    return (
        _refused(attempts) if best.reading is None else _credited(best, best.reading, check.own_parser_id),
    )


def _credited(attempt: Attempt, reading: Reading, own_parser_id: str) -> Finding:
    is_own = reading.parser_id == own_parser_id
    how = "in its own format" if is_own else f"in a format found by trying all; its files say {own_parser_id}"
    unasked = "; it also calls when nothing is offered" if reading.calls_unasked else ""
    num_right = reading.judgements.count("called")
    return Finding(
        question="tools",
        verdict="yes",
        reason=f"{num_right} of {len(reading.judgements)} right, {_OFFERED[attempt.delivery]}; {how}{unasked}",
        value={"parser": reading.parser_id, "delivery": attempt.delivery},
        exchanges=tuple(
            transcript.evidence(parser_id=reading.parser_id if transcript.request.tools else None)
            for transcript in attempt.answers.transcripts
        ),
    )


def _refused(attempts: Sequence[Attempt]) -> Finding:
    troubles = [_TROUBLES[attempt.trouble] for attempt in attempts]
    verdict: ProbeVerdict = "unknown" if any(trouble == "unknown" for trouble, _ in troubles) else "no"
    reasons = [
        f"{_OFFERED[attempt.delivery]}: {words}"
        for attempt, (_, words) in zip(attempts, troubles, strict=True)
    ]
    transcripts = [transcript for attempt in attempts for transcript in attempt.answers.transcripts]
    tags = unknown_tags((transcript.prompt, transcript.output) for transcript in transcripts)
    if tags:
        reasons.append(f"tags that no parser knows: {' '.join(tags)}")
    return Finding(
        question="tools",
        verdict=verdict,
        reason="; ".join(reasons),
        value={"unknown_tags": tags} if tags else {},
        exchanges=tuple(transcript.evidence() for transcript in transcripts),
    )
