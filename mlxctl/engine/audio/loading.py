"""Loads a model of the Whisper kind, with mlx-audio's code for its layers. MLX thread only."""

import importlib
import json
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten

MODULE = "mlx_audio.stt.models.whisper.whisper"
"""Where mlx-audio has the layers; to be imported before `open_listener` is called."""


def open_transcriber(path: Path) -> Any:
    """Return the model at `path`, its parameters not yet read.

    Raises ValueError for weights that are not those of its layers.
    """
    from mlx_audio.utils import apply_quantization

    package: Any = importlib.import_module(MODULE)
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
