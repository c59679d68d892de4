"""Findings from attempts to offer tools.

Unparsed calls and unfinished answers are "unknown", not "no".
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from mlxctl.formats.parsers import THINKING_PARSER_IDS, TOOL_PARSER_IDS, thinking_parser, tool_parser
from mlxctl.ir import ModelCapabilities, ProbeVerdict, ToolDelivery
from mlxctl.probe.interview import Interview
from mlxctl.probe.parser_sweep import ParserResult
from mlxctl.probe.tool_check import ToolAttempt, ToolCheck, ToolFailure
from mlxctl.state.stores import Finding

# <name>, </name>, <name=value>, <name attribute="…">, <|name|>
_TAG = re.compile(r"</?[A-Za-z_][\w.:-]{0,63}(?:[ =][^<>\n]{0,200})?/?>|<[|｜][^<>|｜\s]{1,64}[|｜]>")
_NAME = re.compile(r"</?([A-Za-z_][\w.:-]*)")
# Tags that parsers accept without declaring them as markers.
_INNER = frozenset({"function", "invoke", "parameter"})
_MAX_TAGS = 20

_DELIVERIES: Mapping[ToolDelivery, str] = {
    "template": "offered by the chat template",
    "injected": "written into the system prompt",
}
_FAILURES: Mapping[ToolFailure, tuple[ProbeVerdict, str]] = {
    "made_up": ("no", "it makes up calls"),
    "unparsed": ("unknown", "it seems to call in a format that no parser knows"),
    "cut_off": ("unknown", "it was still thinking at the token limit"),
    "broken": ("no", "it begins calls that cannot be parsed"),
    "no_call": ("no", "it calls no tool"),
}


async def check_tools(interview: Interview, known: ModelCapabilities) -> tuple[Finding, ...]:
    """Offer tools and return the finding."""
    check = ToolCheck(interview, known)
    attempts = await check.attempts()
    if not attempts:
        return (Finding(question="tools", verdict="no", reason="its template gives no way to offer tools"),)
    best = attempts[-1]
    return (
        _no_tools(attempts) if best.parsed is None else _tools_found(best, best.parsed, check.own_parser_id),
    )


def _tools_found(attempt: ToolAttempt, parsed: ParserResult, own_parser_id: str) -> Finding:
    is_own = parsed.parser_id == own_parser_id
    how = (
        "in its own format"
        if is_own
        else f"in the format {parsed.parser_id}, which it follows best"
        if attempt.delivery == "injected"
        else f"in a format found by trying all parsers; its files say {own_parser_id}"
    )
    without_tools = "; it also calls when nothing is offered" if parsed.calls_without_tools else ""
    if attempt.described is not None and attempt.described is not parsed:
        agrees = attempt.described.judgments == parsed.judgments
        how += f"; its response_template {'agrees' if agrees else 'reads other calls'}"
    num_right = parsed.judgments.count("called")
    return Finding(
        question="tools",
        verdict="yes",
        reason=f"{num_right} of {len(parsed.judgments)} right, {_DELIVERIES[attempt.delivery]}; "
        f"{how}{without_tools}",
        value={"parser": parsed.parser_id, "delivery": attempt.delivery},
        exchanges=tuple(
            transcript.evidence(parser_id=parsed.parser_id if transcript.request.tools else None)
            for transcript in attempt.answers.transcripts
        ),
    )


def _no_tools(attempts: Sequence[ToolAttempt]) -> Finding:
    failures = [_FAILURES[attempt.failure] for attempt in attempts]
    verdict: ProbeVerdict = "unknown" if any(failure == "unknown" for failure, _ in failures) else "no"
    reasons = [
        f"{_DELIVERIES[attempt.delivery]}: {words}"
        for attempt, (_, words) in zip(attempts, failures, strict=True)
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


def unknown_tags(transcripts: Iterable[tuple[str, str]]) -> list[str]:
    """Return the tags in answers that no parser knows, each once.

    `transcripts` are pairs of prompt and answer. Tags in the prompt (roles, the list of tools) are ignored.
    """
    known = _known_names()
    found: dict[str, None] = {}
    for prompt, answer in transcripts:
        prompt_names = {_name(tag) for tag in _TAG.findall(prompt)}
        found |= {tag: None for tag in _TAG.findall(answer) if _name(tag) not in known | prompt_names}
    return list(found)[:_MAX_TAGS]


@lru_cache(maxsize=1)
def _known_names() -> frozenset[str]:
    of_tools = (marker for parser in map(tool_parser, TOOL_PARSER_IDS) for marker in parser.markers)
    of_thinking = (
        marker for parser in map(thinking_parser, THINKING_PARSER_IDS) for marker in parser.markers
    )
    return _INNER | {_name(tag) for marker in (*of_tools, *of_thinking) for tag in _tags(marker)}


def _tags(marker: str) -> list[str]:
    # A marker may open a tag that continues with a name, such as <function=
    return _TAG.findall(marker) or _TAG.findall(f"{marker}x>")


def _name(tag: str) -> str:
    match = _NAME.match(tag)
    return match[1] if match else tag
