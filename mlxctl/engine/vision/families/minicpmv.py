"""MiniCPM-V 4.6: pictures of any size, merged to cells."""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from mlxctl.engine.vision.encoders import TileEncoder, patches_of


class Encoder(TileEncoder):
    """Encodes the whole picture, and its slices."""

    def stacks(self) -> Sequence[list[Any]]:
        """Return the layers of the tower."""
        return [self.model.vision_tower.encoder.layers]

    def features(self, tiles: Sequence[mx.array]) -> mx.array:
        """Return the features of the cells of all tiles."""
        size = self.recipe.sizes["patch_size"]
        # (patches, 3, size, size) to a row of patches.
        packed = [patches_of(tile, size).transpose(1, 2, 0, 3).reshape(3, size, -1) for tile in tiles]
        grids = [[tile.shape[0] // size, tile.shape[1] // size] for tile in tiles]
        (features,) = self.model.get_vision_embedding([packed], [grids])
        states: mx.array = features
        return states
