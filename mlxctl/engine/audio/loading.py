"""Loads a Whisper model with mlx-audio's layers. MLX thread only."""

import importlib
import json
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten

from mlxctl.engine.loaded_weights import LoadedWeights
from mlxctl.engine.loading.imports import import_aside
from mlxctl.engine.loading.loader import parameter_bytes, read_weights

_MODULE = "mlx_audio.stt.models.whisper.whisper"


def load_transcription_model(path: Path) -> Generator[int, None, LoadedWeights]:
    """Load the model and decode one token; yield the bytes read so far."""
    started = time.monotonic()
    for _ in import_aside(_MODULE):
        yield 0
    model = open_transcriber(path)
    yield from read_weights(model)
    states = mx.zeros((1, model.dims.n_audio_ctx, model.dims.n_audio_state), dtype=model.dtype)
    logits, caches, _ = model.decoder(mx.array([[0]]), states)
    mx.eval(logits, caches)
    return LoadedWeights(
        model=model,
        vocabulary_size=int(logits.shape[-1]),
        weights_bytes=parameter_bytes(model),
        # Its caches are those of one window at a time, and are not kept.
        kv_bytes_per_token=0,
        cache_kind="plain",
        can_batch=False,
        load_seconds=time.monotonic() - started,
    )


def open_transcriber(path: Path) -> Any:
    """Return the model at `path`, its parameters not yet read.

    Raises ValueError for weights that are not those of its layers.
    """
    from mlx_audio.utils import apply_quantization

    package: Any = importlib.import_module(_MODULE)
    config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    weights: dict[str, mx.array] = {}
    for file in sorted(path.glob("*.safetensors")):
        weights |= mx.load(str(file))  # type: ignore[arg-type]
    dtype = next(
        (array.dtype for array in weights.values() if mx.issubdtype(array.dtype, mx.floating)), mx.float16
    )
    # Its sanitize changes everything to this type: the one that the files have, so that the sizes of both are
    # the same.
    model = package.Model(package.ModelDimensions.from_dict(config), dtype)
    weights = model.sanitize(weights)
    apply_quantization(model, config, weights, None)
    expected = dict(tree_flatten(model.parameters()))
    if missing := sorted(expected.keys() - weights.keys()):
        raise ValueError(f"{len(missing)} of its tensors are missing, such as {missing[0]!r}")
    model.load_weights([(name, weights[name]) for name in expected], strict=True)
    model.eval()
    return model
