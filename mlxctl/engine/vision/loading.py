"""Loads the vision part of a model whose text part is loaded.

MLX thread only.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlx.core as mx

from mlxctl.engine.vision.encoders import create_vision_encoder
from mlxctl.engine.vision.language_model import VisionLanguageModel
from mlxctl.ir import ProcessedImage, VisionRecipe


def open_tower(path: Path, embed_tokens: Any) -> Any:
    """Return mlx-vlm's model at `path` without its text layers.

    Parameters are not yet read.
    """
    from mlx_vlm.utils import load_model

    model = load_model(path, lazy=True)
    model.language_model = SimpleNamespace(model=SimpleNamespace(embed_tokens=embed_tokens))
    return model


def join(text_model: Any, tower: Any, recipe: VisionRecipe) -> VisionLanguageModel:
    """Return both parts as one model. Raises ValueError where their shapes differ.

    The shapes are those of an empty image's features, which are not evaluated.
    """
    embed_tokens = text_model.language_model.model.embed_tokens
    encoder = create_vision_encoder(recipe, tower)
    image, token_ids = _empty_image(recipe)
    features = encoder(image, token_ids)
    wanted = embed_tokens(token_ids).shape
    for states in (features.states, *features.deep):
        if states.shape != wanted:
            raise ValueError(
                f"the features of an image have shape {states.shape}, its token embeddings {wanted}"
            )
    return VisionLanguageModel(text_model, embed_tokens, encoder, recipe, num_deep=len(features.deep))


def _empty_image(recipe: VisionRecipe) -> tuple[ProcessedImage, mx.array]:
    """Return the smallest black image and its tokens."""
    side = recipe.side or recipe.cell_size
    num_cells = (side // recipe.cell_size) ** 2
    token_ids = [recipe.image_token_id] * num_cells + [0] * (recipe.kind == "pixtral")
    num_tokens, pixels = len(token_ids), bytes(3 * side * side)
    image = ProcessedImage.of(
        pixels, height=side, width=side, start=0, num_tokens=num_tokens, num_positions=num_tokens
    )
    return image, mx.array(token_ids, dtype=mx.uint32)
