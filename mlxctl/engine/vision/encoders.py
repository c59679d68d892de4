"""Vision encoders: pixels to image features, with mlx-vlm's towers. MLX thread only."""

from dataclasses import dataclass
from typing import Any, Protocol

import mlx.core as mx
import mlx.nn as nn
import numpy as np

from mlxctl.ir import ProcessedImage, VisionRecipe


@dataclass(frozen=True, slots=True)
class ImageFeatures:
    """The features of an image: `states` (tokens, width) replace token embeddings.

    `deep` are added to the states after the first layers.
    """

    states: mx.array
    deep: tuple[mx.array, ...] = ()


class LayerRecorder:
    """Holds what the layers of an encoder return, until it is taken."""

    def __init__(self, layers: list[Any]) -> None:
        """Replace `layers` by ones that record."""
        self._states: list[mx.array] = []
        layers[:] = [_RecordedLayer(layer, self._states) for layer in layers]

    def take(self) -> list[mx.array]:
        """Return the states after each layer since the last call."""
        states = self._states.copy()
        self._states.clear()
        return states


class _RecordedLayer(nn.Module):  # type: ignore[misc]
    def __init__(self, layer: Any, states: list[mx.array]) -> None:
        super().__init__()
        self.layer = layer
        self._states = states

    def __call__(self, *inputs: Any, **options: Any) -> mx.array:
        states: mx.array = self.layer(*inputs, **options)
        self._states.append(states)
        return states


class VisionEncoder(Protocol):
    """Encodes one image for a language model.

    `token_ids` (tokens,) are its tokens. The result is lazy; `recorder` has the layers that it depends on.
    """

    recorder: LayerRecorder

    def __call__(self, image: ProcessedImage, token_ids: mx.array) -> ImageFeatures:
        """Return the features of the image."""


def create_vision_encoder(recipe: VisionRecipe, model: Any) -> VisionEncoder:
    """Return the encoder of mlx-vlm's `model`."""
    encoders: dict[str, type[Any]] = {"pixtral": PixtralEncoder, "qwen": QwenEncoder, "gemma": GemmaEncoder}
    encoder: VisionEncoder = encoders[recipe.kind](model, recipe)
    return encoder


class PixtralEncoder:
    """Encodes any number of cells; row-end tokens keep their embeddings."""

    def __init__(self, model: Any, recipe: VisionRecipe) -> None:
        self._model = model
        self._recipe = recipe
        self.recorder = LayerRecorder(model.vision_tower.vision_model.transformer.layers)

    def __call__(self, image: ProcessedImage, token_ids: mx.array) -> ImageFeatures:
        pixels = _colors(image, self._recipe).transpose(2, 0, 1)[None]
        sizes = [(image.height, image.width)]
        return ImageFeatures(
            self._model.get_input_embeddings(token_ids[None], pixels, image_sizes=sizes).inputs_embeds[0]
        )


class QwenEncoder:
    """Encodes patches, merged to cells; some models return features of middle layers."""

    def __init__(self, model: Any, recipe: VisionRecipe) -> None:
        self._tower = model.vision_tower
        self._recipe = recipe
        self.recorder = LayerRecorder(self._tower.blocks)
        shape = model.config.vision_config
        self._patch_size, self._num_frames = int(shape.patch_size), int(shape.temporal_patch_size)

    def __call__(self, image: ProcessedImage, token_ids: mx.array) -> ImageFeatures:  # noqa: ARG002
        size = self._patch_size
        patches = self._patches(_colors(image, self._recipe)).astype(
            self._tower.patch_embed.proj.weight.dtype
        )
        features = self._tower(patches, mx.array([[1, image.height // size, image.width // size]]))
        if isinstance(features, tuple):
            return ImageFeatures(features[0], tuple(features[1]))
        return ImageFeatures(features)

    def _patches(self, colors: mx.array) -> mx.array:
        """Return the patches of an image.

        (height, width, 3) to (patches, colors * frames * size * size).
        """
        size, merged = self._patch_size, self._recipe.cell_size // self._patch_size
        rows, columns = colors.shape[0] // self._recipe.cell_size, colors.shape[1] // self._recipe.cell_size
        cells = colors.reshape(rows, merged, size, columns, merged, size, 3).transpose(0, 3, 1, 4, 6, 2, 5)
        # The tower takes videos: an image is a video of equal frames.
        frames = mx.repeat(cells[..., None, :, :], self._num_frames, axis=-3)
        return frames.reshape(rows * columns * merged**2, -1)


class GemmaEncoder:
    """Encodes a square of one size to a fixed number of tokens."""

    def __init__(self, model: Any, recipe: VisionRecipe) -> None:
        self._tower, self._projector = model.vision_tower, model.multi_modal_projector
        self._recipe = recipe
        self.recorder = LayerRecorder(self._tower.vision_model.encoder.layers)
        # The text model multiplies all its inputs by this, as it has to for token embeddings.
        self._scale = mx.array(model.config.text_config.hidden_size**0.5, mx.bfloat16)
        mx.eval(self._scale)

    def __call__(self, image: ProcessedImage, token_ids: mx.array) -> ImageFeatures:  # noqa: ARG002
        kind = self._tower.vision_model.post_layernorm.weight.dtype
        states = self._projector(self._tower(_colors(image, self._recipe)[None].astype(kind))[0])[0]
        return ImageFeatures(states / self._scale.astype(states.dtype))


def _colors(image: ProcessedImage, recipe: VisionRecipe) -> mx.array:
    """Return the normalized colors (height, width, 3) as float32."""
    pixels = np.frombuffer(image.pixels, dtype=np.uint8).reshape(image.height, image.width, 3)
    return (mx.array(pixels).astype(mx.float32) / 255 - mx.array(recipe.mean)) / mx.array(recipe.deviation)
