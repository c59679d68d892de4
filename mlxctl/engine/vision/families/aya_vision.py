"""Aya Vision: square tiles, together."""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from mlxctl.engine.vision.encoders import TileEncoder


class Encoder(TileEncoder):
    """Encodes tiles of one size."""

    def stacks(self) -> Sequence[list[Any]]:
        """Return the layers of the tower."""
        return [self.model.vision_tower.vision_model.encoder.layers]

    def features(self, tiles: Sequence[mx.array]) -> mx.array:
        """Return the features of the cells of all tiles."""
        num_cells = len(tiles) * (self.recipe.sizes["side"] // self.recipe.cell_size) ** 2
        token_id = self.model.config.image_token_index
        embedded = self.model.get_input_embeddings(
            mx.full((1, num_cells), token_id), mx.stack(list(tiles)).transpose(0, 3, 1, 2)
        )
        features: mx.array = embedded.inputs_embeds[0]
        return features
