"""Steps of probing a model.

A failed step gives findings that say so.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from mlxctl.ir import ModelCapabilities
from mlxctl.ir.errors import CapacityError, EngineError, RequestError
from mlxctl.probe.audio_check import check_audio_input, check_transcription
from mlxctl.probe.chat_check import check_chat, check_template
from mlxctl.probe.embedding_check import check_embeddings
from mlxctl.probe.image_check import check_vision
from mlxctl.probe.interview import Interview
from mlxctl.probe.limit_checks import check_batch, check_limits
from mlxctl.probe.rerank_check import check_reranking
from mlxctl.probe.schema_check import check_schema
from mlxctl.probe.speech_check import check_speech
from mlxctl.probe.thinking_check import check_thinking
from mlxctl.probe.tool_results import check_tools
from mlxctl.state.stores import Finding, to_capabilities

QUESTIONS_VERSION = 9
"""Version of the questions; a model probed with an older one is probed again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeStep:
    """Questions answered by one check, which gets the capabilities known so far."""

    title: str
    questions: tuple[str, ...]
    check: Callable[[Interview, ModelCapabilities], Awaitable[tuple[Finding, ...]]]


# Thinking comes first: later answers can only be parsed when the end of thinking is known.
STEPS = (
    ProbeStep(title="its template", questions=("later_system", "tool_turns"), check=check_template),
    ProbeStep(
        title="memory and cache", questions=("trimmable_cache", "practical_context"), check=check_limits
    ),
    ProbeStep(title="thinking", questions=("thinking", "thinking_toggle"), check=check_thinking),
    ProbeStep(title="conversation", questions=("chat",), check=check_chat),
    ProbeStep(title="tools", questions=("tools",), check=check_tools),
    ProbeStep(title="JSON", questions=("structured_output",), check=check_schema),
    ProbeStep(title="images", questions=("vision", "multi_image", "video"), check=check_vision),
    ProbeStep(title="audio", questions=("audio",), check=check_audio_input),
    ProbeStep(title="batches", questions=("batch_safe",), check=check_batch),
)


EMBEDDING_STEPS = (ProbeStep(title="embeddings", questions=("embeddings",), check=check_embeddings),)
"""Steps for embedding models."""

RERANKING_STEPS = (ProbeStep(title="scores", questions=("reranking",), check=check_reranking),)
"""Steps for cross-encoders."""

TRANSCRIPTION_STEPS = (ProbeStep(title="speech", questions=("audio",), check=check_transcription),)
"""Steps for transcription models."""

SPEECH_STEPS = (ProbeStep(title="speech", questions=("audio",), check=check_speech),)
"""Steps for speech models."""


class StepRunner:
    """Runs the steps for one model.

    `findings` grow, so that an interrupted probe keeps them.
    """

    def __init__(self, findings: Iterable[Finding], steps: Sequence[ProbeStep] = STEPS) -> None:
        """`findings` are already known; their questions are skipped."""
        self._steps = steps
        self._findings = {finding.question: finding for finding in findings}
        self.has_results = False

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings so far."""
        return tuple(self._findings.values())

    def missing_steps(self) -> list[ProbeStep]:
        """Return the steps with unanswered questions."""
        return [step for step in self._steps if not self._findings.keys() >= set(step.questions)]

    async def run(self, step: ProbeStep, interview: Interview) -> tuple[Finding, ...]:
        """Run a step; errors of the model or the engine become findings."""
        try:
            found = await step.check(interview, to_capabilities(self.findings))
        except (RequestError, CapacityError, EngineError) as error:
            reason = " ".join(str(error).split())
            found = tuple(_failed(question, reason) for question in step.questions)
        self._findings |= {finding.question: finding for finding in found}
        self.has_results = True
        return found


def _failed(question: str, reason: str) -> Finding:
    return Finding(question=question, verdict="unknown", reason=f"probing failed: {reason}", has_failed=True)
