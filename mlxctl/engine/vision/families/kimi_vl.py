"""Kimi-VL: patches of a picture of any size, merged to cells."""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from mlxctl.engine.vision.encoders import CellEncoder, patches_of


class Encoder(CellEncoder):
    """Encodes a picture of any size."""

    def stacks(self) -> Sequence[list[Any]]:
        """Return the blocks of the tower."""
        return [self.model.vision_tower.blocks]

    def features(self, tiles: Sequence[mx.array]) -> mx.array:
        """Return the features of its cells."""
        size = int(self.model.config.vision_config.patch_size)
        grid = (tiles[0].shape[0] // size, tiles[0].shape[1] // size)
        states = self.model.vision_tower(
            patches_of(tiles[0], size).transpose(0, 2, 3, 1),
            output_hidden_states=True,
            grid_thw=mx.array([grid]),
            grid_shapes=[grid],
        )
        features: mx.array = self.model.multi_modal_projector(states)
        return features
