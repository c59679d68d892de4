"""What a model is for, and errors for requests of another purpose."""

from collections.abc import Iterable

from mlxctl.inference.models.served_model import ServedModel
from mlxctl.ir import Purpose
from mlxctl.ir.errors import InvalidRequest

_PURPOSES: dict[Purpose, str] = {
    "embeddings": "makes embeddings and writes no text; send texts to /v1/embeddings, or name another model",
    "transcription": "transcribes audio and writes no other text; "
    "send audio to /v1/audio/transcriptions, or name another model",
    "speech": "speaks text and writes none; send text to /v1/audio/speech, or name another model",
    "alignment": "finds the times of the words of a known text and transcribes nothing; name another model",
    "diarization": "finds who speaks when and transcribes nothing; name another model",
}
_RERANKER = (
    "is a reranker and writes no text; send a query and documents to /v1/rerank, or name another model"
)
_TEXT_MODEL_FOR: dict[Purpose, str] = {
    "embeddings": "generates text, and its hidden states make poor vectors",
    "transcription": "generates text and takes no audio",
    "speech": "generates text and makes no audio",
}
# Small ones.
_SHORT_NAMES_FOR: dict[Purpose, str] = {
    "embeddings": "qwen3-embedding:0.6b",
    "transcription": "whisper:small",
    "speech": "qwen3-tts:0.6b",
}


def check_purpose(
    model: ServedModel, name: str, purpose: Purpose, others: Iterable[tuple[str, ServedModel]]
) -> None:
    """Raise InvalidRequest for a model of another purpose.

    `others` are the models of the server by name; the error names one that fits.
    """
    if model.facts.purpose == purpose:
        return
    if model.scores_pairs:
        what = _RERANKER
    elif model.facts.purpose == "text":
        fitting = (
            other for other, served in others if served.facts.purpose == purpose and not served.scores_pairs
        )
        what = f"{_TEXT_MODEL_FOR[purpose]}; {_remedy(purpose, next(fitting, None))}"
    else:
        what = _PURPOSES[model.facts.purpose]
    raise InvalidRequest(f"model {name!r} {what}", param="model", code="model_not_supported")


def _remedy(purpose: Purpose, served: str | None) -> str:
    if served is not None:
        return f"name a model for it, such as {served!r}"
    short_name = _SHORT_NAMES_FOR[purpose]
    return (
        f"this server has no model for it; to add one: `mlxctl models pull {short_name}`, then start "
        f"`mlxctl serve` with {short_name}, too"
    )
