"""Findings of a probe with their evidence. Pure values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mlxctl.ir.models import ProbeVerdict

QUESTIONS: Mapping[str, str] = {
    "chat": "chat",
    "tools": "tool calls",
    "thinking": "thinking",
    "thinking_toggle": "thinking can be turned off",
    "later_system": "template: later system message",
    "tool_turns": "template: past calls and results",
    "batch_safe": "same answers in a batch",
    "trimmable_cache": "cache can be trimmed",
    "practical_context": "longest context",
    "structured_output": "JSON schema",
    "vision": "vision",
    "multi_image": "several images in a message",
    "video": "video",
    "embeddings": "embeddings",
    "reranking": "reranking",
    "audio": "audio",
}
"""All questions, in display order, with their text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One generation: prompt and output verbatim, and the parser that read it.

    Texts include special tokens.
    """

    prompt: str
    output: str
    parser_id: str | None = None
    num_tokens: int = 0
    duration_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The verdict on one question.

    `value` has details (a parser's id, a number), as JSON values. `has_failed`: an error occurred, so the
    verdict is unknown and the question should be probed again.
    """

    question: str
    verdict: ProbeVerdict
    reason: str
    value: Mapping[str, Any] = field(default_factory=dict)
    exchanges: tuple[Exchange, ...] = ()
    has_failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRecord:
    """All findings about the model with this fingerprint.

    With the time (unix seconds) and package versions. `round` is the version of the question catalog: a newer
    one may find more.
    """

    fingerprint: str
    model: str
    path: str
    probed_at: float
    round: int
    duration_seconds: float = 0.0
    versions: Mapping[str, str] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()

    def finding(self, question: str) -> Finding | None:
        """Return the finding on this question, None if it was not probed."""
        return next((finding for finding in self.findings if finding.question == question), None)

    @property
    def is_complete(self) -> bool:
        """Whether every question has a finding that did not fail."""
        return {finding.question for finding in self.findings if not finding.has_failed} == QUESTIONS.keys()
