"""Describes a model directory without loading weights.

An unusable directory is described as far as it can be read, with the problem in one line.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from mlxctl.ir import EmbeddingRecipe, SpeechRecipe, TranscriptionRecipe
from mlxctl.ir.errors import BrokenModel, ModelError
from mlxctl.ir.model_spec import TextModelOptions
from mlxctl.library.chat_templates import find_chat_template
from mlxctl.library.context_length import find_context_length
from mlxctl.library.detection import Detection, detect
from mlxctl.library.directory_reader import read_model
from mlxctl.library.encoders import ENCODER_KINDS
from mlxctl.library.files import missing_config, read_json_object
from mlxctl.library.kv_cache import CacheShape, find_cache_shape
from mlxctl.library.layer_plan import plan_layers
from mlxctl.library.mtp_heads import MTP_HEAD_TYPE
from mlxctl.library.names import display_name
from mlxctl.library.quantization import Quantization, find_quantization
from mlxctl.library.runtimes import find_runtimes, missing_runtime
from mlxctl.library.safetensors_headers import read_tensors
from mlxctl.library.speech_recipe import CODEC_FOLDER
from mlxctl.library.text_config import text_part
from mlxctl.library.transcription_recipe import transcription_family
from mlxctl.library.weights import Experts, Weights, count_experts, sum_tensors

_UNKNOWN = Detection(kind="unknown", family=None, evidence=())
_SPEECH = ("speech-to-text", "alignment", "diarization", "text-to-speech")
# Weights without a readable header are in a format that MLX does not load, or not downloaded yet.
_USUAL_FLOAT_BYTES = 2
_MAX_FILES = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDescription:
    """A model on disk.

    A field is None where the files lack it; `problem` is one line on why the model cannot be used.

    `disk_bytes` counts every file of the directory. `context_length` is in tokens, None for a model without
    text input. `embedding` and `dimensions` are as in ModelFacts. `runtimes` are the installed packages with
    code for the model, None if no such package is installed. `cache` is its KV cache, quantized with
    `has_quantized_cache`; `speech` and `transcription` are what an audio model can do.
    """

    name: str
    path: Path
    disk_bytes: int
    detection: Detection = _UNKNOWN
    model_type: str | None = None
    config: Mapping[str, Any]
    quantization: Quantization | None = None
    weights: Weights | None = None
    context_length: int | None = None
    has_template: bool = False
    takes_tools: bool = False
    cache: CacheShape | None = None
    embedding: EmbeddingRecipe | None = None
    dimensions: int | None = None
    speech: SpeechRecipe | None = None
    transcription: TranscriptionRecipe | None = None
    has_quantized_cache: bool = False
    runtimes: tuple[str, ...] | None = None
    problem: str | None = None

    @property
    def experts(self) -> Experts | None:
        """Its experts; None for a model without any."""
        return count_experts(text_part(self.config))

    @property
    def is_mixture(self) -> bool:
        """Whether it is a mixture of experts."""
        return self.experts is not None

    @property
    def num_parameters(self) -> int | None:
        """The number of its weights."""
        return self.weights.num_parameters if self.weights else None

    @property
    def quantization_label(self) -> str | None:
        """The packing of its weights; None for floating-point weights."""
        return self.quantization.label if self.quantization else None

    @property
    def has_vision_tower(self) -> bool:
        """Whether its weights include a vision tower."""
        return self.weights is not None and self.weights.has_vision_tower

    @property
    def is_supported(self) -> bool:
        """Whether it is usable, with an installed package that runs it."""
        return self.problem is None and bool(self.runtimes)

    @property
    def number_format(self) -> str | None:
        """The format of the weights: `4-bit`, or `16-bit float`."""
        if self.quantization is not None:
            return self.quantization.label
        float_bytes = self.weights.float_bytes if self.weights else None
        return f"{8 * float_bytes}-bit float" if float_bytes else None

    def served_with(self, options: TextModelOptions) -> "ModelDescription":
        """Return the description of a text model served with `options`."""
        kv_format = options.kv_format
        if kv_format is None or self.detection.kind == "embeddings":
            return self
        float_bytes = (self.weights.float_bytes if self.weights else None) or _USUAL_FLOAT_BYTES
        plan = plan_layers(self.model_type or "", text_part(self.config))
        cache = self.cache and self.cache.quantized(kv_format, float_bytes=float_bytes, plan=plan)
        return replace(self, cache=cache, has_quantized_cache=True)


def describe_model(path: Path, *, name: str | None = None) -> ModelDescription:
    """Describe the directory. Never raises for its contents."""
    blank = ModelDescription(
        name=name or display_name(path), path=path, disk_bytes=disk_bytes(path), config={}
    )
    try:
        config = read_json_object(path, "config.json")
    except BrokenModel as error:
        return replace(blank, problem=str(error))
    if config is None:
        return replace(blank, problem=missing_config(path, blank.name))
    weights, flaw = _weigh(path, config)
    described = replace(blank, config=config, weights=weights, quantization=find_quantization(config))
    try:
        described = _with_text_facts(described)
    except BrokenModel as error:
        return replace(described, problem=str(error))
    described, problem = _with_serving_facts(described)
    return replace(described, problem=problem or flaw)


def _weigh(path: Path, config: Mapping[str, Any]) -> tuple[Weights | None, str | None]:
    try:
        tensors = [*read_tensors(path), *read_tensors(path / CODEC_FOLDER)]
    except BrokenModel as error:
        return None, str(error)
    return (sum_tensors(tensors, config) if tensors else None), None


def _with_text_facts(blank: ModelDescription) -> ModelDescription:
    """Add facts of configuration, tokenizer and template. Raises BrokenModel."""
    config, weights = blank.config, blank.weights
    model_type = config.get("model_type")
    model_type = model_type if isinstance(model_type, str) and model_type else None
    tokenizer = read_json_object(blank.path, "tokenizer_config.json") or {}
    template = find_chat_template(blank.path, tokenizer, model_type)
    found = detect(
        blank.path,
        config,
        template=template,
        has_vision_tower=weights.has_vision_tower if weights else None,
        name=blank.name,
    )
    has_audio = found.kind in _SPEECH
    float_bytes = (weights.float_bytes if weights else None) or _USUAL_FLOAT_BYTES
    return replace(
        blank,
        detection=found,
        model_type=model_type,
        context_length=None if has_audio else find_context_length(config, tokenizer),
        has_template=template is not None,
        takes_tools=template is not None and "tools" in template,
        cache=find_cache_shape(model_type, config, float_bytes=float_bytes)
        if model_type and not has_audio
        else None,
        runtimes=find_runtimes(ENCODER_KINDS.get(model_type, model_type)) if model_type else None,
    )


def _with_serving_facts(described: ModelDescription) -> tuple[ModelDescription, str | None]:
    """Add facts that reading the model for serving yields, or its error."""
    # Reading these names the missing extra, or what an MTP head is for.
    has_own_error = (
        described.model_type in (*ENCODER_KINDS, MTP_HEAD_TYPE)
        or transcription_family(described.config) is not None
    )
    if described.runtimes == () and not has_own_error:
        return (
            described,
            f"model {described.name!r}: {missing_runtime(str(described.model_type))}",
        )
    kinds = ("text", "vision", "embeddings", "text-to-speech", "unknown")
    if described.detection.kind in kinds or has_own_error:
        try:
            facts = read_model(described.path)
        except ModelError as error:
            return described, str(error)
        return replace(
            described,
            context_length=None if facts.speech or facts.transcription else facts.context_length,
            embedding=facts.embedding,
            dimensions=facts.dimensions,
            speech=facts.speech,
            transcription=facts.transcription,
        ), None
    if not any(described.path.glob("*.safetensors")) and not any(described.path.glob("*.npz")):
        return described, f"model {described.name!r} has no weights (*.safetensors)"
    return described, None


def disk_bytes(path: Path) -> int:
    """Return the size of all files.

    Links of a hub snapshot count with their targets.
    """
    total = 0
    for file in islice(path.rglob("*"), _MAX_FILES):
        try:
            total += file.stat().st_size if file.is_file() else 0
        except OSError:
            continue
    return total
