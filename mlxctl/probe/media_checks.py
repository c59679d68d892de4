"""What is known of a model's senses without asking: there is nothing to ask where they are not computed here."""

from mlxctl.models.detection import Detection, Kind
from mlxctl.models.transcription_recipe import TRANSCRIPTION_MODEL_TYPES
from mlxctl.models.vision_recipe import VISION_MODEL_TYPES
from mlxctl.stores import QUESTIONS, Finding

_SENSES: dict[str, tuple[Kind, ...]] = {
    "vision": ("vision",),
    "embeddings": ("embeddings",),
    "audio": ("speech-to-text", "text-to-speech"),
}
_NOT_RUN = {
    "vision": f"images are shown only to {', '.join(VISION_MODEL_TYPES)} models here, and with mlxctl[vision] installed",
    "embeddings": "only embedding models are asked for vectors",
    "audio": f"only {', '.join(TRANSCRIPTION_MODEL_TYPES)} models transcribe here, with mlxctl[audio] installed; there is no speech synthesis",
}


def check_senses(detection: Detection) -> tuple[Finding, ...]:
    """Answer from the kind of model that the files tell; a model of text has no other sense."""
    return tuple(_sense(question, detection) for question in _SENSES)


def refuse_silent(detection: Detection) -> tuple[Finding, ...]:
    """Answer for a model that is not made to write text: nothing was asked, so nothing is known."""
    reason = f"its files say {detection.kind} ({detection.evidence[0]}); only models that write text are asked this"
    senses = {finding.question: finding for finding in check_senses(detection)}
    return tuple(
        senses.get(question) or Finding(question=question, verdict="unknown", reason=reason)
        for question in QUESTIONS
    )


def _sense(question: str, detection: Detection) -> Finding:
    because = f"{detection.kind} ({detection.evidence[0]})" if detection.evidence else detection.kind
    value = {"kind": detection.kind}
    if detection.kind in _SENSES[question]:
        return Finding(
            question=question,
            verdict="unknown",
            reason=f"its files say {because}; {_NOT_RUN[question]}",
            value=value,
        )
    if detection.kind == "text":
        return Finding(question=question, verdict="no", reason=f"its files say: {because}", value=value)
    return Finding(
        question=question,
        verdict="unknown",
        reason=f"its files say {because}, and {_NOT_RUN[question]}",
        value=value,
    )
