"""From pixels to what a model reads in place of words: mlx-vlm's towers, one way for each kind.

MLX thread only.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import mlx.core as mx
import numpy as np

from mlxctl.ir import ProcessedImage, VisionRecipe


@dataclass(frozen=True, slots=True)
class ImageFeatures:
    """What was seen of a image: `states` (tokens, width) to be read, and `deep` ones that are added after the
    first layers.
    """

    states: mx.array
    deep: tuple[mx.array, ...] = ()


class VisionEncoder(Protocol):
    """Looks at one image; `token_ids` (tokens,) are its own. What it returns may not be computed yet."""

    def __call__(self, image: ProcessedImage, token_ids: mx.array) -> ImageFeatures:
        """Return what is seen."""


def create_vision_encoder(recipe: VisionRecipe, model: Any) -> VisionEncoder:
    """Return the eye of mlx-vlm's `model`."""
    eyes: dict[str, type[Any]] = {"pixtral": PixtralEncoder, "qwen": QwenEncoder, "gemma": GemmaEncoder}
    eye: VisionEncoder = eyes[recipe.kind](model, recipe)
    return eye


class PixtralEncoder:
    """Sees cells of any number, and lays them between the words that end its rows."""

    def __init__(self, model: Any, recipe: VisionRecipe) -> None:
        self._model = model
        self._recipe = recipe

    def __call__(self, image: ProcessedImage, token_ids: mx.array) -> ImageFeatures:
        """Look."""
        pixels = _colors(image, self._recipe).transpose(2, 0, 1)[None]
        sizes = [(image.height, image.width)]
        return ImageFeatures(
            self._model.get_input_embeddings(token_ids[None], pixels, image_sizes=sizes).inputs_embeds[0]
        )


class QwenEncoder:
    """Sees patches, several of which are merged to a cell; some models tell of their middle layers, too."""

    def __init__(self, model: Any, recipe: VisionRecipe) -> None:
        self._tower = model.vision_tower
        self._recipe = recipe
        shape = model.config.vision_config
        self._patch_size, self._num_frames = int(shape.patch_size), int(shape.temporal_patch_size)

    def __call__(self, image: ProcessedImage, token_ids: mx.array) -> ImageFeatures:  # noqa: ARG002
        """Look."""
        size = self._patch_size
        patches = self._patches(_colors(image, self._recipe)).astype(
            self._tower.patch_embed.proj.weight.dtype
        )
        seen = self._tower(patches, mx.array([[1, image.height // size, image.width // size]]))
        return ImageFeatures(seen[0], tuple(seen[1])) if isinstance(seen, tuple) else ImageFeatures(seen)

    def _patches(self, colors: mx.array) -> mx.array:
        """Lay out a image (height, width, 3) as (patches, colors * frames * size * size), cell by cell."""
        size, merged = self._patch_size, self._recipe.cell_size // self._patch_size
        rows, columns = colors.shape[0] // self._recipe.cell_size, colors.shape[1] // self._recipe.cell_size
        cells = colors.reshape(rows, merged, size, columns, merged, size, 3).transpose(0, 3, 1, 4, 6, 2, 5)
        # A tower for films: a image is one that stands still.
        frames = mx.repeat(cells[..., None, :, :], self._num_frames, axis=-3)
        return frames.reshape(rows * columns * merged**2, -1)


class GemmaEncoder:
    """Sees a square of one size, always as the same number of tokens."""

    def __init__(self, model: Any, recipe: VisionRecipe) -> None:
        self._tower, self._projector = model.vision_tower, model.multi_modal_projector
        self._recipe = recipe
        # The model multiplies by this whatever it reads, as it has to with words.
        self._scale = mx.array(model.config.text_config.hidden_size**0.5, mx.bfloat16)
        mx.eval(self._scale)

    def __call__(self, image: ProcessedImage, token_ids: mx.array) -> ImageFeatures:  # noqa: ARG002
        """Look."""
        kind = self._tower.vision_model.post_layernorm.weight.dtype
        states = self._projector(self._tower(_colors(image, self._recipe)[None].astype(kind))[0])[0]
        return ImageFeatures(states / self._scale.astype(states.dtype))


def _colors(image: ProcessedImage, recipe: VisionRecipe) -> mx.array:
    """Return the image's colors (height, width, 3) as the model takes them, float32."""
    pixels = np.frombuffer(image.pixels, dtype=np.uint8).reshape(image.height, image.width, 3)
    return (mx.array(pixels).astype(mx.float32) / 255 - mx.array(recipe.mean)) / mx.array(recipe.deviation)
