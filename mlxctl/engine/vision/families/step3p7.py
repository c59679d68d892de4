"""Step 3.7: windows together, then the whole image."""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from mlxctl.engine.vision.encoders import TileEncoder


class Encoder(TileEncoder):
    """Encodes the windows of a large image, and the whole image."""

    def stacks(self) -> Sequence[list[Any]]:
        """Return the blocks of the tower."""
        return [self.model.vision_model.transformer]

    def features(self, tiles: Sequence[mx.array]) -> mx.array:
        """Return the features of the cells of all tiles."""
        *windows, whole = (tile.transpose(2, 0, 1) for tile in tiles)
        (features,) = self.model._vision_embeddings(  # noqa: SLF001 -- it has no other way
            pixel_values=whole[None],
            patch_pixel_values=mx.stack(windows) if windows else None,
            num_patches=[len(windows)],
        )
        states: mx.array = features
        return states
