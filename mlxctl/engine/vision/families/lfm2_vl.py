"""LFM2-VL: pictures of any size, each by itself."""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from mlxctl.engine.vision.encoders import CellEncoder


class Encoder(CellEncoder):
    """Encodes the tiles of a picture."""

    def stacks(self) -> Sequence[list[Any]]:
        """Return the layers of the tower."""
        return [self.model.vision_tower.encoder.layers]

    def features(self, tiles: Sequence[mx.array]) -> mx.array:
        """Return the features of the cells of all tiles."""
        return mx.concatenate([self._features(tile) for tile in tiles])

    def _features(self, tile: mx.array) -> mx.array:
        size = self.recipe.sizes["patch_size"]
        rows, columns = tile.shape[0] // size, tile.shape[1] // size
        patches = tile.reshape(rows, size, columns, size, 3).transpose(0, 2, 1, 3, 4)
        (states,) = self.model.encode_images(
            patches.reshape(1, rows * columns, -1),
            spatial_shapes=mx.array([[rows, columns]]),
            pixel_attention_mask=mx.ones((1, rows * columns), dtype=mx.int32),
        )
        features: mx.array = states
        return features
