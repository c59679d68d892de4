"""Pixtral and Mistral 3: any number of cells."""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from mlxctl.engine.vision.encoders import ImageFeatures, VisionEncoder, colors_of
from mlxctl.ir import ProcessedImage


class Encoder(VisionEncoder):
    """Encodes a picture of any size."""

    def stacks(self) -> Sequence[list[Any]]:
        """Return the layers of the tower."""
        return [self.model.vision_tower.vision_model.transformer.layers]

    def encode(self, image: ProcessedImage, token_ids: mx.array) -> ImageFeatures:
        """Return the features of an image."""
        (colors,) = colors_of(image, self.recipe)
        embedded = self.model.get_input_embeddings(
            token_ids[None], colors.transpose(2, 0, 1)[None], image_sizes=list(image.tiles)
        )
        return ImageFeatures(embedded.inputs_embeds[0])
