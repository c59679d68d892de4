"""The course of an interview: step by step, each question once, and whatever goes wrong in one step is known
to be a failure.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from mlxctl.errors import CapacityError, EngineError, RequestError
from mlxctl.ir import ModelCapabilities
from mlxctl.probe.audio_check import check_hearing
from mlxctl.probe.chat_check import check_chat, check_template
from mlxctl.probe.embedding_check import check_embeddings
from mlxctl.probe.image_check import check_vision
from mlxctl.probe.interview import Interview
from mlxctl.probe.limit_checks import check_batch, check_limits
from mlxctl.probe.schema_check import check_schema
from mlxctl.probe.thinking_check import check_thinking
from mlxctl.probe.tool_results import check_tools
from mlxctl.stores import Finding, to_capabilities

ROUND = 5
"""The number of this catalog of questions; a model that was asked by an older one is asked again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeStep:
    """Questions that are answered together, in words for people, by a check that is told what is known
    already.
    """

    what: str
    questions: tuple[str, ...]
    check: Callable[[Interview, ModelCapabilities], Awaitable[tuple[Finding, ...]]]


# Thinking comes first: who does not know where a thought ends cannot read what comes behind it.
STEPS = (
    ProbeStep(what="its template", questions=("later_system", "tool_turns"), check=check_template),
    ProbeStep(
        what="memory and cache", questions=("trimmable_cache", "practical_context"), check=check_limits
    ),
    ProbeStep(what="thinking", questions=("thinking", "thinking_toggle"), check=check_thinking),
    ProbeStep(what="conversation", questions=("chat",), check=check_chat),
    ProbeStep(what="tools", questions=("tools",), check=check_tools),
    ProbeStep(what="JSON", questions=("structured_output",), check=check_schema),
    ProbeStep(what="images", questions=("vision",), check=check_vision),
    ProbeStep(what="batches", questions=("batch_safe",), check=check_batch),
)


EMBEDDING_STEPS = (ProbeStep(what="embeddings", questions=("embeddings",), check=check_embeddings),)
"""What a model that makes vectors and writes no text is asked."""

SPEECH_STEPS = (ProbeStep(what="speech", questions=("audio",), check=check_hearing),)
"""What a model that writes down speech is asked."""


class Course:
    """Asks one model.

    `findings` grow as it answers, so that what was found is there whenever the course is broken off.
    """

    def __init__(self, findings: Iterable[Finding], steps: Sequence[ProbeStep] = STEPS) -> None:
        """`findings` are what is known already and not asked again."""
        self._steps = steps
        self._findings = {finding.question: finding for finding in findings}
        self.was_begun = False

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is known by now."""
        return tuple(self._findings.values())

    def missing_steps(self) -> list[ProbeStep]:
        """Return the steps whose questions have no answer yet."""
        return [step for step in self._steps if not self._findings.keys() >= set(step.questions)]

    async def take(self, step: ProbeStep, interview: Interview) -> tuple[Finding, ...]:
        """Take a step; never raises for what the model or the engine does."""
        try:
            found = await step.check(interview, to_capabilities(self.findings))
        except (RequestError, CapacityError, EngineError) as error:
            reason = " ".join(str(error).split())
            found = tuple(_failed(question, reason) for question in step.questions)
        self._findings |= {finding.question: finding for finding in found}
        self.was_begun = True
        return found


def _failed(question: str, reason: str) -> Finding:
    return Finding(question=question, verdict="unknown", reason=f"asking failed: {reason}", has_failed=True)
