"""Reads the facts of a model directory; rejects models with code."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlxctl.ir import EmbeddingRecipe, ModelFacts, TranscriptionRecipe
from mlxctl.ir.errors import BrokenModel, ModelNotFoundOnDisk
from mlxctl.library.audio_recipe import AudioSupport, read_audio_recipe
from mlxctl.library.chat_templates import find_chat_template, find_tool_template
from mlxctl.library.context_length import find_context_length
from mlxctl.library.cross_encoder import is_cross_encoder, read_cross_encoder_recipe
from mlxctl.library.detection import Kind, detect
from mlxctl.library.embedding_recipe import read_embedding_recipe
from mlxctl.library.families import find_family
from mlxctl.library.files import missing_config, missing_weight_files, read_json_object, read_optional_json
from mlxctl.library.mtp_heads import MTP_HEAD_TYPE
from mlxctl.library.names import display_name
from mlxctl.library.speech_recipe import SPEECH_FAMILIES, read_speech_recipe, speech_weights_bytes
from mlxctl.library.text_config import whole_number
from mlxctl.library.transcription_recipe import read_transcription_recipe, transcription_family
from mlxctl.library.vision_recipe import read_vision_recipe

_WHISPER_HINT = (
    "; Whisper models with one are OpenAI's own, such as openai/whisper-large-v3-turbo, and those of "
    "mlx-audio with -asr in their name"
)


def read_model(path: Path, *, trust_remote_code: bool = False) -> ModelFacts:
    """Read a model directory without loading weights.

    Raises ModelNotFoundOnDisk if the directory does not exist, BrokenModel if files are missing, malformed or
    too large, if the model brings code that is not trusted, or if it computes embeddings in an unsupported
    way.
    """
    if not path.is_dir():
        raise ModelNotFoundOnDisk(path, f"there is no model directory at {str(path)!r}")
    config = read_json_object(path, "config.json")
    if config is None:
        raise BrokenModel(path, missing_config(path, display_name(path)))
    tokenizer_config = read_json_object(path, "tokenizer_config.json") or {}
    if not trust_remote_code:
        _refuse_code(path, config)
    if config.get("model_type") == MTP_HEAD_TYPE:
        raise BrokenModel(
            path, f"{display_name(path)!r} is an MTP head: give it to --draft beside the model it drafts for"
        )
    speech = read_speech_recipe(path, config)
    transcriber = transcription_family(config)
    template = find_chat_template(path, tokenizer_config, config.get("model_type"))
    kind = detect(path, config, template=template, has_vision_tower=False, name=display_name(path)).kind
    if speech is not None:
        config = {"model_type": speech.family, **config}
    elif transcriber in (None, "whisper"):
        # The tokenizers of other transcription models have many forms; only the engine reads them.
        _check_tokenizer(path, config, kind)
    model_type = transcriber or _model_type(path, config)
    family, _ = find_family(model_type, template)
    generation_config = read_optional_json(path, "generation_config.json")
    context_length = find_context_length(config, tokenizer_config)
    embedding = _embedding_recipe(path, config, kind, context_length)
    speech_bytes = 0 if speech is None else speech_weights_bytes(path)
    vision, transcription = read_vision_recipe(path, config), read_transcription_recipe(path, config)
    listens = speech is None and transcription is None and embedding is None and transcriber is None
    audio = read_audio_recipe(path, config) if listens else AudioSupport()
    return ModelFacts(
        path=path,
        model_type=model_type,
        family=family,
        config=config,
        generation_config=generation_config,
        tokenizer_config=tokenizer_config,
        chat_template=template,
        tool_template=find_tool_template(path, tokenizer_config),
        context_length=_shortest_length(context_length, embedding, transcription),
        default_max_tokens=whole_number(generation_config, "max_new_tokens") or None,
        weights_bytes=_weights_bytes(path)
        + speech_bytes
        + (_dense_bytes(path, embedding) if embedding else 0),
        embedding=embedding,
        dimensions=_num_dimensions(config, embedding),
        vision=vision.recipe,
        vision_problem=vision.problem,
        audio=audio.recipe,
        audio_problem=audio.problem,
        transcription=transcription,
        speech=speech,
    )


def _check_tokenizer(path: Path, config: Mapping[str, Any], kind: Kind) -> None:
    """Raise BrokenModel for a model without tokenizer.json.

    Also for a speech model that is not supported.
    """
    if kind == "text-to-speech":
        raise BrokenModel(
            path,
            f"model {display_name(path)!r} speaks text, and models of type {config.get('model_type')!r} "
            f"are not supported for it; those of {', '.join(SPEECH_FAMILIES)} are",
        )
    if not (path / "tokenizer.json").is_file():
        hint = _WHISPER_HINT if transcription_family(config) else ""
        raise BrokenModel(path, f"model {display_name(path)!r} has no tokenizer.json{hint}")


def _embedding_recipe(
    path: Path, config: Mapping[str, Any], kind: Kind, context_length: int
) -> EmbeddingRecipe | None:
    if kind == "embeddings":
        return read_embedding_recipe(path, config, context_length=context_length)
    if kind == "reranker" and is_cross_encoder(config):
        return read_cross_encoder_recipe(path, config, context_length=context_length)
    return None


def _shortest_length(
    context_length: int, embedding: EmbeddingRecipe | None, transcription: TranscriptionRecipe | None
) -> int:
    if embedding is not None:
        return embedding.max_length
    return transcription.context_length if transcription and transcription.whisper else context_length


def _num_dimensions(config: Mapping[str, Any], embedding: EmbeddingRecipe | None) -> int | None:
    width = whole_number(config, "hidden_size")
    return embedding.num_dimensions(width) if embedding is not None and width else None


def _refuse_code(path: Path, config: Mapping[str, Any]) -> None:
    """Raise BrokenModel if the architecture is Python code of the directory.

    `auto_map` names code for Transformers, which mlxctl never runs.
    """
    if config.get("model_file"):
        why = "is built by Python code of its own (model_file in config.json); --trust-remote-code allows it"
        raise BrokenModel(path, f"model {display_name(path)!r} {why}")


def _model_type(path: Path, config: Mapping[str, Any]) -> str:
    model_type = config.get("model_type")
    if not isinstance(model_type, str) or not model_type:
        raise BrokenModel(path, f"config.json of model {display_name(path)!r} names no model_type")
    return model_type


def _weights_bytes(path: Path) -> int:
    """Return the size of the weight files.

    Raises BrokenModel if the index names files that are missing, as after an aborted download.
    """
    sizes = {file.name: file.stat().st_size for file in path.glob("*.safetensors") if file.is_file()}
    if not sizes:
        raise BrokenModel(path, f"model {display_name(path)!r} has no weights (*.safetensors)")
    if missing := missing_weight_files(path, sizes):
        raise BrokenModel(
            path,
            f"model {display_name(path)!r} lacks {len(missing)} of its weight files, such as {missing[0]!r}",
        )
    return sum(sizes.values())


def _dense_bytes(path: Path, recipe: EmbeddingRecipe) -> int:
    return sum((path / layer.file).stat().st_size for layer in recipe.dense if layer.file is not None)
