"""Brings what a model sees with into memory, beside the model of words, which is loaded already.

MLX thread only.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlx.core as mx

from mlxctl.engine.vision.encoders import create_vision_encoder
from mlxctl.engine.vision.language_model import VisionLanguageModel
from mlxctl.ir import ProcessedImage, VisionRecipe


def open_tower(path: Path, words: Any) -> Any:
    """Return mlx-vlm's model at `path` without its own layers for words, its parameters not yet read."""
    from mlx_vlm.utils import load_model

    model = load_model(path, lazy=True)
    model.language_model = SimpleNamespace(model=SimpleNamespace(embed_tokens=words))
    return model


def join(text_model: Any, tower: Any, recipe: VisionRecipe) -> VisionLanguageModel:
    """Return both as one, after a look at an empty image. Raises ValueError where they do not fit each other.

    The look is not computed, which would keep others waiting: its shapes say enough.
    """
    words = text_model.language_model.model.embed_tokens
    eye = create_vision_encoder(recipe, tower)
    image, token_ids = _empty_picture(recipe)
    glance = eye(image, token_ids)
    wanted = words(token_ids).shape
    for states in (glance.states, *glance.deep):
        if states.shape != wanted:
            raise ValueError(f"a image is seen as {states.shape}, but its tokens are read as {wanted}")
    return VisionLanguageModel(text_model, words, eye, recipe, num_deep=len(glance.deep))


def _empty_picture(recipe: VisionRecipe) -> tuple[ProcessedImage, mx.array]:
    """Return a black image, as small as it may be, and its tokens."""
    side = recipe.side or recipe.cell_size
    num_cells = (side // recipe.cell_size) ** 2
    token_ids = [recipe.image_token_id] * num_cells + [0] * (recipe.kind == "pixtral")
    num_tokens, pixels = len(token_ids), bytes(3 * side * side)
    image = ProcessedImage.of(
        pixels, height=side, width=side, start=0, num_tokens=num_tokens, num_positions=num_tokens
    )
    return image, mx.array(token_ids, dtype=mx.uint32)
