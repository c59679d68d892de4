"""Towers that merge patches to cells, as Qwen2-VL's does. MLX thread only."""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from mlxctl.engine.vision.encoders import ImageFeatures, VisionEncoder, colors_of
from mlxctl.ir import ProcessedImage


class MergedPatchEncoder(VisionEncoder):
    """Encodes a picture of any size, or a group of frames.

    Some towers also return features of middle layers.
    """

    def stacks(self) -> Sequence[list[Any]]:
        """Return the blocks of the tower."""
        return [self.model.vision_tower.blocks]

    def encode(self, image: ProcessedImage, token_ids: mx.array) -> ImageFeatures:  # noqa: ARG002
        """Return the features of an image."""
        size = int(self.model.config.vision_config.patch_size)
        patches = self._patches(colors_of(image, self.recipe), size).astype(self._patch_weight().dtype)
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

    def _patches(self, pictures: Sequence[mx.array], size: int) -> mx.array:
        """Return the patches of frames, or of an image.

        (height, width, 3) each to (patches, colors * frames * size * size).
        """
        merged = self.recipe.cell_size // size
        height, width, _ = pictures[0].shape
        rows, columns = height // self.recipe.cell_size, width // self.recipe.cell_size
        # The tower takes videos: an image is a video of equal frames.
        num_frames = int(self.model.config.vision_config.temporal_patch_size)
        frames = mx.stack([*pictures, *[pictures[-1]] * (num_frames - len(pictures))], axis=-1)
        cells = frames.reshape(rows, merged, size, columns, merged, size, 3, num_frames)
        return cells.transpose(0, 3, 1, 4, 6, 7, 2, 5).reshape(rows * columns * merged**2, -1)
