"""InternVL: square tiles, together."""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from mlxctl.engine.vision.encoders import CellEncoder


class Encoder(CellEncoder):
    """Encodes tiles of one size."""

    def stacks(self) -> Sequence[list[Any]]:
        """Return the layers of the tower."""
        return [self.model.vision_model.encoder.layers]

    def features(self, tiles: Sequence[mx.array]) -> mx.array:
        """Return the features of the cells of all tiles."""
        num_cells = len(tiles) * self.recipe.sizes["num_cells"]
        embedded = self.model.get_input_embeddings(
            mx.full((1, num_cells), self.recipe.image_token_id),
            mx.stack(list(tiles)).transpose(0, 3, 1, 2),
            image_token_index=self.recipe.image_token_id,
        )
        features: mx.array = embedded.inputs_embeds[0]
        return features
