"""Findings on modalities that are not tested here, from the model's files."""

from mlxctl.formats.audio.registry import AUDIO_MODEL_TYPES
from mlxctl.formats.vision.registry import VISION_MODEL_TYPES
from mlxctl.library.detection import Detection, Kind
from mlxctl.library.speech_recipe import SPEECH_FAMILIES
from mlxctl.library.transcription_families import TRANSCRIPTION_FAMILIES
from mlxctl.state.stores import QUESTIONS, Finding

_MODALITIES: dict[str, tuple[Kind, ...]] = {
    "vision": ("vision",),
    "multi_image": ("vision",),
    "video": ("vision",),
    "embeddings": ("embeddings",),
    "reranking": ("reranker",),
    "audio": ("speech-to-text", "alignment", "diarization", "text-to-speech"),
}
_IMAGES_NOT_RUN = (
    f"images are tested only with {', '.join(VISION_MODEL_TYPES)} models here, with mlxctl[vision] installed"
)
_NOT_RUN = {
    "vision": _IMAGES_NOT_RUN,
    "multi_image": _IMAGES_NOT_RUN,
    "video": _IMAGES_NOT_RUN,
    "embeddings": "only embedding models are tested for vectors",
    "reranking": "only cross-encoders are tested for scores",
    "audio": f"only {', '.join(('whisper', *TRANSCRIPTION_FAMILIES))} models transcribe here, only "
    f"{', '.join(SPEECH_FAMILIES)} models speak, and only {', '.join(AUDIO_MODEL_TYPES)} models answer to "
    "audio, with mlxctl[audio] installed",
}


def check_modalities(detection: Detection) -> tuple[Finding, ...]:
    """Return findings on vision, video, embeddings, reranking and audio by detected kind."""
    return tuple(_check_modality(question, detection) for question in _MODALITIES)


def unsupported_findings(detection: Detection) -> tuple[Finding, ...]:
    """Return findings of a model that cannot run here: all unknown."""
    reason = (
        f"its files say {detection.kind} ({detection.evidence[0]}); only models that generate text "
        "are tested for this"
    )
    modalities = {finding.question: finding for finding in check_modalities(detection)}
    return tuple(
        modalities.get(question) or Finding(question=question, verdict="unknown", reason=reason)
        for question in QUESTIONS
    )


def _check_modality(question: str, detection: Detection) -> Finding:
    because = f"{detection.kind} ({detection.evidence[0]})" if detection.evidence else detection.kind
    value = {"kind": detection.kind}
    if detection.kind in _MODALITIES[question]:
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
