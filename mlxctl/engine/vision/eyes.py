"""From pixels to what a model reads in place of words: mlx-vlm's towers, one way for each kind. MLX thread only."""

from dataclasses import dataclass
from typing import Any, Protocol

import mlx.core as mx
import numpy as np

from mlxctl.ir import Picture, SightRecipe


@dataclass(frozen=True, slots=True)
class Glance:
    """What was seen of a picture: `states` (tokens, width) to be read, and `deep` ones that are added after the first layers."""

    states: mx.array
    deep: tuple[mx.array, ...] = ()


class Eye(Protocol):
    """Looks at one picture; `token_ids` (tokens,) are its own. What it returns may not be computed yet."""

    def __call__(self, picture: Picture, token_ids: mx.array) -> Glance:
        """Return what is seen."""


def eye_of(recipe: SightRecipe, model: Any) -> Eye:
    """Return the eye of mlx-vlm's `model`."""
    eyes: dict[str, type[Any]] = {"pixtral": PixtralEye, "qwen": QwenEye, "gemma": GemmaEye}
    eye: Eye = eyes[recipe.kind](model, recipe)
    return eye


class PixtralEye:
    """Sees cells of any number, and lays them between the words that end its rows."""

    def __init__(self, model: Any, recipe: SightRecipe) -> None:
        self._model = model
        self._recipe = recipe

    def __call__(self, picture: Picture, token_ids: mx.array) -> Glance:
        """Look."""
        pixels = _colours(picture, self._recipe).transpose(2, 0, 1)[None]
        sizes = [(picture.height, picture.width)]
        return Glance(self._model.get_input_embeddings(token_ids[None], pixels, image_sizes=sizes).inputs_embeds[0])


class QwenEye:
    """Sees patches, several of which are merged to a cell; some models tell of their middle layers, too."""

    def __init__(self, model: Any, recipe: SightRecipe) -> None:
        self._tower = model.vision_tower
        self._recipe = recipe
        shape = model.config.vision_config
        self._patch_size, self._num_frames = int(shape.patch_size), int(shape.temporal_patch_size)

    def __call__(self, picture: Picture, token_ids: mx.array) -> Glance:  # noqa: ARG002
        """Look."""
        size = self._patch_size
        patches = self._patches(_colours(picture, self._recipe)).astype(self._tower.patch_embed.proj.weight.dtype)
        seen = self._tower(patches, mx.array([[1, picture.height // size, picture.width // size]]))
        return Glance(seen[0], tuple(seen[1])) if isinstance(seen, tuple) else Glance(seen)

    def _patches(self, colours: mx.array) -> mx.array:
        """Lay out a picture (height, width, 3) as (patches, colours * frames * size * size), cell by cell."""
        size, merged = self._patch_size, self._recipe.cell_size // self._patch_size
        rows, columns = colours.shape[0] // self._recipe.cell_size, colours.shape[1] // self._recipe.cell_size
        cells = colours.reshape(rows, merged, size, columns, merged, size, 3).transpose(0, 3, 1, 4, 6, 2, 5)
        # A tower for films: a picture is one that stands still.
        frames = mx.repeat(cells[..., None, :, :], self._num_frames, axis=-3)
        return frames.reshape(rows * columns * merged**2, -1)


class GemmaEye:
    """Sees a square of one size, always as the same number of tokens."""

    def __init__(self, model: Any, recipe: SightRecipe) -> None:
        self._tower, self._projector = model.vision_tower, model.multi_modal_projector
        self._recipe = recipe
        # The model multiplies by this whatever it reads, as it has to with words.
        self._scale = mx.array(model.config.text_config.hidden_size**0.5, mx.bfloat16)
        mx.eval(self._scale)

    def __call__(self, picture: Picture, token_ids: mx.array) -> Glance:  # noqa: ARG002
        """Look."""
        kind = self._tower.vision_model.post_layernorm.weight.dtype
        states = self._projector(self._tower(_colours(picture, self._recipe)[None].astype(kind))[0])[0]
        return Glance(states / self._scale.astype(states.dtype))


def _colours(picture: Picture, recipe: SightRecipe) -> mx.array:
    """Return the picture's colours (height, width, 3) as the model takes them, float32."""
    pixels = np.frombuffer(picture.pixels, dtype=np.uint8).reshape(picture.height, picture.width, 3)
    return (mx.array(pixels).astype(mx.float32) / 255 - mx.array(recipe.mean)) / mx.array(recipe.deviation)
