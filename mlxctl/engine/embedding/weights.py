"""Classes for the weights of embedding models. MLX thread only.

They are a package's own layers without a head, and the dense layers after pooling.
"""

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlxctl.ir import EmbeddingRecipe, EncoderKind

_HEAD = "lm_head"
_LAYERS = "model."
_DENSE, _NORMS = "dense.", "dense_norms."
# The layers of a cross-encoder's classification head, by their names here.
_SCORING_LAYERS: Mapping[EncoderKind, Mapping[str, str]] = {
    "bert": {"pooler.dense.": "dense.0.", "classifier.": "dense.1."},
    "xlm_roberta": {"classifier.dense.": "dense.0.", "classifier.out_proj.": "dense.1."},
    "modernbert": {"head.dense.": "dense.0.", "head.norm.": "dense_norms.0.", "classifier.": "dense.1."},
}


def embedding_classes(
    config: Mapping[str, Any], recipe: EmbeddingRecipe, path: Path
) -> tuple[type[Any], type[Any]]:
    """Return model and argument classes for mlx-lm's `load_model`.

    The model's `dense` is a list of the recipe's layers, `dense_norms` of their norms. Raises ValueError for
    an unsupported `model_type`.
    """
    import mlx.nn as nn

    base, arguments, prefix = _layers_of(config, recipe)

    class EmbeddingModel(base):  # type: ignore[misc, valid-type]
        def __init__(self, args: Any) -> None:
            super().__init__(args)
            self.dense = [
                nn.Linear(layer.num_inputs, layer.num_outputs, bias=layer.has_bias) for layer in recipe.dense
            ]
            self.dense_norms = [
                nn.LayerNorm(layer.num_outputs, eps=layer.norm_epsilon, bias=False)
                for layer in recipe.dense
                if layer.norm_epsilon is not None
            ]

        def sanitize(self, weights: dict[str, Any]) -> dict[str, Any]:
            weights = {_dense_name(name, recipe): array for name, array in weights.items()}
            dense = {name: array for name, array in weights.items() if name.startswith((_DENSE, _NORMS))}
            weights = {name: array for name, array in weights.items() if name not in dense}
            if not any(name.startswith(prefix) for name in weights):
                weights = {prefix + name: array for name, array in weights.items()}
            if hasattr(super(), "sanitize"):
                weights = super().sanitize(weights)
            # A model with tied embeddings has no separate head.
            self.pop(_HEAD, None)
            weights = {name: array for name, array in weights.items() if not name.startswith(_HEAD)}
            return weights | dense | _read_dense(recipe, path)

    return EmbeddingModel, arguments


def _dense_name(name: str, recipe: EmbeddingRecipe) -> str:
    """Return a weight's name in the model class of this package.

    In a cross-encoder's head it is that of a dense layer.
    """
    if not recipe.scores_pairs or recipe.encoder is None:
        return name
    bare = name.removeprefix("bert.")
    layers = _SCORING_LAYERS[recipe.encoder].items()
    return next((own + bare.removeprefix(layer) for layer, own in layers if bare.startswith(layer)), name)


def modules_of(recipe: EmbeddingRecipe) -> tuple[str, ...]:
    """Return the modules with the model's layers, besides mlx-lm."""
    match recipe.encoder:
        case None | "gemma3_text":
            return ()
        case "llama_bidirec":
            return ("mlx_embeddings.models.llama_bidirec",)
        case kind:
            return (f"mlx_vlm.models.{kind}",)


def _layers_of(config: Mapping[str, Any], recipe: EmbeddingRecipe) -> tuple[type[Any], type[Any], str]:
    """Return model and argument classes and the prefix of the layers' weights.

    A model that was saved without a head lacks the prefix.
    """
    if not modules_of(recipe):
        from mlx_lm.utils import _get_classes

        return *_get_classes(dict(config)), _LAYERS
    module = importlib.import_module(*modules_of(recipe))
    if recipe.encoder == "llama_bidirec":
        return module.Model, module.ModelArgs, _LAYERS
    return module.Model, module.ModelConfig, ""


def _read_dense(recipe: EmbeddingRecipe, path: Path) -> dict[str, Any]:
    """Read the files of dense layers.

    The weights get the names that they would have among the model's weights.
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
