"""Loads a text model with its encoders of images and audio.

MLX thread only.
"""

import json
import time
from collections.abc import Generator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import numpy as np

from mlxctl.engine.generation.measurement import bytes_per_token, measure
from mlxctl.engine.loaded_weights import LoadedWeights
from mlxctl.engine.loading.imports import import_in_thread
from mlxctl.engine.loading.loader import LOAD_ERRORS, error_line, load_lm_model, parameter_bytes, read_weights
from mlxctl.engine.loading.vlm_text_model import load_vlm_text_model, no_code_of_models
from mlxctl.engine.speculation.draft_model import draft_model_problem
from mlxctl.engine.vision.encoders import MediaEncoder, create_encoders
from mlxctl.engine.vision.language_model import VisionLanguageModel, decoder_of
from mlxctl.formats.audio.registry import AUDIO_FAMILIES
from mlxctl.formats.vision.registry import VISION_FAMILIES
from mlxctl.ir import AudioRecipe, ModelSpec, ProcessedImage, TextGenerationTask, VisionRecipe
from mlxctl.ir.model_spec import DraftModelSpec
from mlxctl.ir.transcription import SAMPLE_RATE
from mlxctl.library.runtimes import missing_runtime, text_package


def load_text_model(spec: ModelSpec) -> Generator[int, None, LoadedWeights]:
    """Load the model and run one token through it.

    Yields the number of bytes read so far. A model whose encoders cannot be loaded still reads text, and
    `encoder_problem` says why. Raises LOAD_ERRORS, also for a KV cache format that the model cannot use.
    """
    assert isinstance(spec.task, TextGenerationTask)
    started = time.monotonic()
    model, config = yield from _open_model(spec)
    yield from read_weights(model)
    weights = measure(model, started, options=spec.task.options, config=config)
    draft = spec.task.options.draft
    if draft is not None and not draft.is_mtp_head:
        weights = yield from _with_draft_model(weights, draft)
    elif draft is not None:
        weights = yield from _with_mtp_head(weights, draft.path)
    if spec.task.options.mtp_head:
        weights = yield from _with_mtp_head(weights, spec.path)
    if spec.task.vision is None and spec.task.audio is None:
        return weights
    try:
        weights = yield from _with_encoders(weights, spec, spec.task)
    except LOAD_ERRORS as error:
        part = "vision part" if spec.task.vision is not None else "audio part"
        return replace(weights, encoder_problem=f"its {part} cannot be loaded: {error_line(error)}")
    return replace(weights, load_seconds=time.monotonic() - started)


def _open_model(spec: ModelSpec) -> Generator[int, None, tuple[Any, dict[str, Any]]]:
    """Return the model and its configuration.

    The class is mlx-lm's if it has one, else mlx-vlm's.
    """
    config = json.loads((spec.path / "config.json").read_text(encoding="utf-8-sig"))
    model_type = str(config.get("model_type"))
    if not (spec.trust_remote_code and config.get("model_file")):
        if problem := missing_runtime(model_type):
            raise ValueError(problem)
        if text_package(model_type) == "mlx-vlm":
            return (yield from load_vlm_text_model(spec.path))
    # mlx-vlm's class of this type reads shared keys at wrong positions.
    options = {"get_model_classes": _renaming_classes} if model_type == "gemma3n" else {}
    try:
        return load_lm_model(spec.path, trust_remote_code=spec.trust_remote_code, **options)
    except LOAD_ERRORS:
        assert isinstance(spec.task, TextGenerationTask)
        if spec.task.vision is None and spec.task.audio is None:
            raise
        # Some classes of mlx-lm do not read the names that mlx-vlm's conversions have.
        return (yield from load_vlm_text_model(spec.path))


def _renaming_classes(config: dict[str, Any]) -> tuple[Any, Any]:
    """Return mlx-lm's classes, which read the names of mlx-vlm's conversions too."""
    from mlx_lm.utils import _get_classes

    model_class, args_class = _get_classes(config)

    class Renaming(model_class):  # type: ignore[misc, valid-type]
        def sanitize(self, weights: dict[str, mx.array]) -> Any:
            own = all(name.startswith("model.") for name in weights)
            return super().sanitize(
                weights
                if own
                else {
                    "model." + name.replace("language_model.model.", "language_model."): value
                    for name, value in weights.items()
                }
            )

    return Renaming, args_class


def _with_draft_model(weights: LoadedWeights, draft: DraftModelSpec) -> Generator[int, None, LoadedWeights]:
    started = time.monotonic()
    model, _ = load_lm_model(draft.path)
    for num_bytes in read_weights(model):
        yield weights.weights_bytes + num_bytes
    if problem := draft_model_problem(model):
        raise ValueError(f"draft model {draft.path.name!r} cannot be used: {problem}")
    measured = measure(model, started)
    return replace(
        weights,
        draft_model=model,
        weights_bytes=weights.weights_bytes + measured.weights_bytes,
        kv_bytes_per_token=weights.kv_bytes_per_token + measured.kv_bytes_per_token,
        load_seconds=weights.load_seconds + measured.load_seconds,
    )


def _with_mtp_head(weights: LoadedWeights, path: Path) -> Generator[int, None, LoadedWeights]:
    # PERF: only a model with a head needs the layers of its architecture.
    from mlxctl.engine.speculation.mtp_head import StateRecorder, load_mtp_head

    started, loading = time.monotonic(), load_mtp_head(weights.model, path)
    try:
        while True:
            yield weights.weights_bytes + next(loading)
    except StopIteration as end:
        head = end.value
    except LOAD_ERRORS as error:
        raise ValueError(
            f"its MTP head cannot be loaded: {error_line(error)}; set --speculation lookup"
        ) from error
    recorder = StateRecorder()
    recorder.attach(weights.model.language_model.model)
    return replace(
        weights,
        mtp_head=head,
        state_recorder=recorder,
        weights_bytes=weights.weights_bytes + parameter_bytes(head),
        kv_bytes_per_token=weights.kv_bytes_per_token + sum(map(bytes_per_token, head.measure())),
        load_seconds=weights.load_seconds + time.monotonic() - started,
    )


def _with_encoders(
    weights: LoadedWeights, spec: ModelSpec, task: TextGenerationTask
) -> Generator[int, None, LoadedWeights]:
    for _ in import_in_thread("mlx_vlm.utils"):
        yield weights.weights_bytes
    from mlx_vlm.utils import get_model_type

    model_type = get_model_type(json.loads((spec.path / "config.json").read_text(encoding="utf-8-sig")))
    for _ in import_in_thread(f"mlx_vlm.models.{model_type}"):
        yield weights.weights_bytes
    decoder = decoder_of(weights.model)
    with nullcontext() if spec.trust_remote_code else no_code_of_models():
        tower = _open_tower(spec.path, decoder)
    for num_bytes in read_weights(tower):
        yield weights.weights_bytes + num_bytes
    tower.eval()
    num_bytes = weights.weights_bytes + parameter_bytes(tower)
    return replace(
        weights,
        model=_join_encoders(weights.model, tower, decoder, task),
        weights_bytes=num_bytes,
    )


def _open_tower(path: Path, decoder: Any) -> Any:
    """Return mlx-vlm's model at `path` without its text layers.

    Of one that also speaks, it is the part that understands. Parameters are not yet read.
    """
    from mlx_vlm.utils import load_model

    model = load_model(path, lazy=True)
    model = getattr(model, "thinker", model)
    # Where its classes look for the embedding table.
    model.language_model = SimpleNamespace(model=decoder, embed_tokens=decoder.embed_tokens)
    return model


def _join_encoders(
    text_model: Any, tower: Any, decoder: Any, task: TextGenerationTask
) -> VisionLanguageModel:
    """Return all parts as one model. Raises ValueError where their shapes differ.

    The shapes are those of the features of an empty image and of silence, which are not evaluated.
    """
    vision, audio = create_encoders(task.vision, task.audio, tower, decoder)
    num_deep = 0
    if vision is not None:
        num_deep = _check_shapes(vision, *_empty_image(vision.recipe))
    if audio is not None:
        _check_shapes(audio, *_silence(audio.recipe))
    return VisionLanguageModel(text_model, vision, audio, num_deep=num_deep)


def _check_shapes(encoder: MediaEncoder, image: ProcessedImage, layout: Sequence[int | str]) -> int:
    """Return the number of deep states of features."""
    cell = encoder.recipe.cell_token_ids[0]
    ids = [one for piece in layout for one in ([cell] * piece if isinstance(piece, int) else [0])]
    token_ids = mx.array(ids, dtype=mx.uint32)
    features = encoder.encode(image, token_ids)
    encoder.recorder.take()
    wanted = encoder.decoder.embed_tokens(token_ids).shape
    for states in (features.states, *features.deep):
        if states.shape != wanted:
            raise ValueError(
                f"its encoder's features have shape {states.shape}, its token embeddings {wanted}"
            )
    return len(features.deep)


def _empty_image(recipe: VisionRecipe) -> tuple[ProcessedImage, Sequence[int | str]]:
    """Return the smallest black image and its layout."""
    from PIL import Image

    cut = VISION_FAMILIES[recipe.family].cut(Image.new("RGB", (recipe.cell_size,) * 2), recipe)
    image = ProcessedImage.of(
        b"".join(tile.tobytes() for tile in cut.tiles),
        tiles=tuple((tile.height, tile.width) for tile in cut.tiles),
        start=0,
        num_tokens=0,
        num_positions=0,
    )
    return image, cut.layout


def _silence(recipe: AudioRecipe) -> tuple[ProcessedImage, Sequence[int | str]]:
    """Return a second of silence and its layout."""
    cut = AUDIO_FAMILIES[recipe.family].cut(np.zeros(SAMPLE_RATE, np.float32), recipe)
    audio = ProcessedImage.of(
        cut.features.astype("<f4").tobytes(),
        tiles=(cut.features.shape,),
        start=0,
        num_tokens=0,
        num_positions=0,
        is_audio=True,
    )
    return audio, cut.layout
