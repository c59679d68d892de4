"""What was found out about a model, with what proves it. Pure values; knows no models and no parsers."""

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
    "embeddings": "embeddings",
    "audio": "audio",
}
"""What is asked about every model, in the order in which it is shown, and in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One generation: the whole prompt as the model got it, what it said, special tokens included, and who
    could read it.
    """

    prompt: str
    output: str
    parser_id: str | None = None
    num_tokens: int = 0
    duration_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The answer to one question. `value` holds what belongs to it (a parser's id, a number), as JSON values.

    `has_failed` says that something went wrong while it was asked: nothing is known then, and it is worth
    asking again.
    """

    question: str
    verdict: ProbeVerdict
    reason: str
    value: Mapping[str, Any] = field(default_factory=dict)
    exchanges: tuple[Exchange, ...] = ()
    has_failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRecord:
    """All that was found out about the model with this fingerprint, when (unix seconds), and by which
    versions of what.

    `round` is the number of the catalog of questions: a newer one may find what an older one could not.
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
        """Return the answer to this question, if it was asked."""
        return next((finding for finding in self.findings if finding.question == question), None)

    @property
    def is_complete(self) -> bool:
        """Whether every question was asked and none has to be asked again."""
        return {finding.question for finding in self.findings if not finding.has_failed} == QUESTIONS.keys()
