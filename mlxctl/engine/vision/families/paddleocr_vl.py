"""PaddleOCR-VL: patches row by row, merged to cells by its projector."""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from mlxctl.engine.vision.encoders import CellEncoder, patches_of


class Encoder(CellEncoder):
    """Encodes a picture of any size."""

    def stacks(self) -> Sequence[list[Any]]:
        """Return the layers of the tower."""
        return [self.model.visual.layers]

    def features(self, tiles: Sequence[mx.array]) -> mx.array:
        """Return the features of its cells."""
        size = int(self.model.config.vision_config.patch_size)
        grid = mx.array([[1, tiles[0].shape[0] // size, tiles[0].shape[1] // size]])
        kind = self.model.visual.embeddings.patch_embedding.weight.dtype
        features: mx.array = self.model.visual(patches_of(tiles[0], size)[None].astype(kind), grid)
        return features
