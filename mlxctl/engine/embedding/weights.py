"""What an embedding model's weights are put into: a package's own layers without a head, and the layers
behind the pooling.

MLX thread only.
"""

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlxctl.ir import EmbeddingRecipe

_HEAD = "lm_head"
_LAYERS = "model."
_DENSE = "dense."


def embedding_classes(
    config: Mapping[str, Any], recipe: EmbeddingRecipe, path: Path
) -> tuple[type[Any], type[Any]]:
    """Return the classes of the model and its arguments for a configuration, as `load_model` of mlx-lm wants
    them.

    The model's `dense` is a list of the recipe's layers. Raises ValueError for a `model_type` that there is
    no code for.
    """
    import mlx.nn as nn

    base, arguments, prefix = _layers_of(config, recipe)

    class EmbeddingModel(base):  # type: ignore[misc, valid-type]
        def __init__(self, args: Any) -> None:
            super().__init__(args)
            self.dense = [
                nn.Linear(layer.num_inputs, layer.num_outputs, bias=layer.has_bias) for layer in recipe.dense
            ]

        def sanitize(self, weights: dict[str, Any]) -> dict[str, Any]:
            dense = {name: array for name, array in weights.items() if name.startswith(_DENSE)}
            weights = {name: array for name, array in weights.items() if name not in dense}
            if not any(name.startswith(prefix) for name in weights):
                weights = {prefix + name: array for name, array in weights.items()}
            if hasattr(super(), "sanitize"):
                weights = super().sanitize(weights)
            # A model that shares its table with its head has dropped the head itself.
            self.pop(_HEAD, None)
            weights = {name: array for name, array in weights.items() if not name.startswith(_HEAD)}
            return weights | dense | _read_dense(recipe, path)

    return EmbeddingModel, arguments


def modules_of(recipe: EmbeddingRecipe) -> tuple[str, ...]:
    """Return what has the model's layers beside mlx-lm."""
    return (
        ()
        if recipe.encoder is None or recipe.encoder == "gemma3_text"
        else (f"mlx_vlm.models.{recipe.encoder}",)
    )


def _layers_of(config: Mapping[str, Any], recipe: EmbeddingRecipe) -> tuple[type[Any], type[Any], str]:
    """Return the classes and what stands before the names of the layers' weights, which a model that was
    saved headless lacks.
    """
    if not modules_of(recipe):
        from mlx_lm.utils import _get_classes

        return *_get_classes(dict(config)), _LAYERS
    module = importlib.import_module(*modules_of(recipe))
    return module.Model, module.ModelConfig, ""


def _read_dense(recipe: EmbeddingRecipe, path: Path) -> dict[str, Any]:
    """Read the layers behind the pooling that lie in files of their own, named as those among the other
    weights are.
    """
    import mlx.core as mx

    arrays: dict[str, Any] = {}
    for index, layer in enumerate(recipe.dense):
        if layer.file is not None:
            stored: Any = mx.load(str(path / layer.file))
            arrays |= {
                f"{_DENSE}{index}.{name.removeprefix('linear.')}": array for name, array in stored.items()
            }
    return arrays
