"""Detects the kind of a model from its small files.

A fallback: probing by generation is more reliable. Each rule records its evidence. Without a matching rule
the kind is unknown.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from mlxctl.library.encoders import ENCODER_KINDS, has_bidirectional_attention
from mlxctl.library.families import find_family
from mlxctl.library.files import read_optional_json
from mlxctl.library.speech_recipe import speech_family
from mlxctl.library.transcription_families import TRANSCRIPTION_FAMILIES, find_other_family

Kind = Literal[
    "text",
    "vision",
    "embeddings",
    "reranker",
    "speech-to-text",
    "alignment",
    "diarization",
    "text-to-speech",
    "unknown",
]

_SPEECH_TO_TEXT = (
    "canary", "cohere_asr", "glmasr", "moonshine", "parakeet", "qwen3_asr", "sensevoice", "voxtral",
    "wav2vec2", "whisper",
)  # fmt: skip
_TEXT_TO_SPEECH = (
    "bark", "chatterbox", "csm", "dia", "f5_tts", "fish_", "gradium_phonon_tts", "higgs_", "indextts",
    "kitten", "kokoro", "kugelaudio", "melotts", "moss_tts", "omnivoice", "orpheus", "outetts",
    "parler_tts", "pocket_tts", "qwen3_tts", "sesame", "soprano", "spark", "vibevoice", "voxcpm",
    "voxtral_tts", "zonos",
)  # fmt: skip
_ENCODERS = ENCODER_KINDS.keys() | {"albert", "distilbert", "electra", "gte", "mpnet", "new", "nomic_bert"}
_EMBEDDING_FILES = ("modules.json", "1_Pooling/config.json", "config_sentence_transformers.json")
_SPEECH_FIELDS: tuple[tuple[Kind, frozenset[str]], ...] = (
    ("speech-to-text", frozenset({"n_mels", "n_audio_ctx"})),
    ("text-to-speech", frozenset({"istftnet", "plbert"})),
    ("text-to-speech", frozenset({"flow_lm", "mimi"})),
)
_RERANKING_INSTRUCTION = "Judge whether the Document meets the requirements"


class DetectedKind(NamedTuple):
    """A kind with its evidence."""

    kind: Kind
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """Kind and family of a model.

    `evidence` lists in words what they follow from; `family` is None for an unknown one.
    """

    kind: Kind
    family: str | None
    evidence: tuple[str, ...]


def detect(
    directory: Path,
    config: Mapping[str, Any],
    *,
    template: str | None,
    has_vision_tower: bool | None = None,
    name: str | None = None,
) -> Detection:
    """Detect kind and family.

    `has_vision_tower` is whether the weights include a vision tower (None: not checked). Raises BrokenModel.
    """
    model_type = str(config.get("model_type") or "")
    family, by_family = find_family(model_type, template)
    sighting = (
        _speech(model_type, config, name or directory.name)
        or _reranker(config, template)
        or _embeddings(directory, model_type, config)
        or _named(name or directory.name, model_type)
        or _vision(directory, config, has_vision_tower)
        or _text(config, template)
        or DetectedKind("unknown", "no file names its purpose")
    )
    return Detection(
        kind=sighting.kind, family=family, evidence=(sighting.evidence, *([by_family] if family else []))
    )


def _speech(model_type: str, config: Mapping[str, Any], name: str) -> DetectedKind | None:
    audio = find_other_family(config)
    if audio and (purpose := TRANSCRIPTION_FAMILIES[audio].purpose) != "transcription":
        return DetectedKind(purpose, f"model_type {audio!r}")
    if model_type.startswith(_TEXT_TO_SPEECH):
        return DetectedKind("text-to-speech", f"model_type {model_type!r}")
    if model_type.startswith(_SPEECH_TO_TEXT):
        return DetectedKind("speech-to-text", f"model_type {model_type!r}")
    if str(config.get("target", "")).startswith("nemo.collections.asr"):
        return DetectedKind("speech-to-text", "config.json names a NeMo speech recognizer")
    if speech_family(config, name) == "soprano":
        return DetectedKind("text-to-speech", "its name is Soprano's")
    for kind, fields in _SPEECH_FIELDS:
        if fields <= config.keys():
            return DetectedKind(kind, f"config.json has {' and '.join(sorted(fields))}")
    return None


def _reranker(config: Mapping[str, Any], template: str | None) -> DetectedKind | None:
    labels = config.get("num_labels") or len(config.get("id2label") or ())
    for architecture in _architectures(config):
        if architecture.endswith("ForSequenceClassification") and labels in (0, 1):
            return DetectedKind("reranker", f"architecture {architecture!r} with one label")
    if template and _RERANKING_INSTRUCTION in template:
        return DetectedKind("reranker", "the chat template asks whether a document matches a query")
    return None


def _embeddings(directory: Path, model_type: str, config: Mapping[str, Any]) -> DetectedKind | None:
    found = next((file for file in _EMBEDDING_FILES if (directory / file).is_file()), None)
    if found:
        return DetectedKind("embeddings", f"it has {found}")
    if model_type in _ENCODERS or model_type.endswith(("_embedding", "_bidirec")):
        return DetectedKind("embeddings", f"model_type {model_type!r}")
    if has_bidirectional_attention(config):
        return DetectedKind("embeddings", "config.json has bidirectional attention")
    return None


def _named(name: str, model_type: str) -> DetectedKind | None:
    """Detect the kind by the model's name: conversions often lack the files."""
    for word, kind in _BY_NAME.items():
        if word in name.lower():
            return DetectedKind(
                kind,
                f"its name contains {word!r}; nothing else distinguishes it from a {model_type or 'text'} "
                "model",
            )
    return None


_BY_NAME: dict[str, Kind] = {"rerank": "reranker", "embedding": "embeddings"}


def _vision(directory: Path, config: Mapping[str, Any], has_vision_tower: bool | None) -> DetectedKind | None:
    if has_vision_tower is False:
        return None
    if isinstance(config.get("vision_config"), Mapping):
        return DetectedKind("vision", "config.json has a vision_config")
    processor = read_optional_json(directory, "preprocessor_config.json")
    return (
        DetectedKind("vision", "it has an image processor") if "image_processor_type" in processor else None
    )


def _text(config: Mapping[str, Any], template: str | None) -> DetectedKind | None:
    for architecture in _architectures(config):
        if architecture.endswith(("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")):
            return DetectedKind("text", f"architecture {architecture!r}")
    if template:
        return DetectedKind("text", "it has a chat template")
    is_decoder = "vocab_size" in config and ("num_hidden_layers" in config or "n_layer" in config)
    return DetectedKind("text", "config.json has a vocabulary and layers") if is_decoder else None


def _architectures(config: Mapping[str, Any]) -> Sequence[str]:
    found = config.get("architectures")
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []
