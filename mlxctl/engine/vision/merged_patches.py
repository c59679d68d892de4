"""Towers that merge patches to cells, as Qwen2-VL's does. MLX thread only."""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from mlxctl.engine.vision.encoders import ImageFeatures, VisionEncoder, colors_of
from mlxctl.ir import ProcessedImage


class MergedPatchEncoder(VisionEncoder):
    """Encodes a picture of any size.

    Some towers also return features of middle layers.
    """

    def stacks(self) -> Sequence[list[Any]]:
        """Return the blocks of the tower."""
        return [self.model.vision_tower.blocks]

    def encode(self, image: ProcessedImage, token_ids: mx.array) -> ImageFeatures:  # noqa: ARG002
        """Return the features of an image."""
        size = int(self.model.config.vision_config.patch_size)
        (colors,) = colors_of(image, self.recipe)
        patches = self._patches(colors, size).astype(self._patch_weight().dtype)
        features = self.model.vision_tower(
            patches, mx.array([[1, image.height // size, image.width // size]])
        )
        if isinstance(features, tuple):
            return ImageFeatures(features[0], tuple(features[1]))
        return ImageFeatures(features)

    def _patch_weight(self) -> mx.array:
        embed = self.model.vision_tower.patch_embed
        weight: mx.array = getattr(embed, "patchifier", embed).proj.weight
        return weight

    def _patches(self, colors: mx.array, size: int) -> mx.array:
        """Return the patches of an image.

        (height, width, 3) to (patches, colors * frames * size * size).
        """
        merged = self.recipe.cell_size // size
        rows, columns = colors.shape[0] // self.recipe.cell_size, colors.shape[1] // self.recipe.cell_size
        cells = colors.reshape(rows, merged, size, columns, merged, size, 3).transpose(0, 3, 1, 4, 6, 2, 5)
        # The tower takes videos: an image is a video of equal frames.
        num_frames = int(self.model.config.vision_config.temporal_patch_size)
        frames = mx.repeat(cells[..., None, :, :], num_frames, axis=-3)
        return frames.reshape(rows * columns * merged**2, -1)
