"""Idefics 3 and SmolVLM: square tiles, together."""

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
        pixels = mx.stack(list(tiles))
        size = int(self.model.config.vision_config.patch_size)
        patches = mx.ones((len(tiles), pixels.shape[1] // size, pixels.shape[2] // size), dtype=mx.bool_)
        states, *_ = self.model.vision_model(pixels, patch_attention_mask=patches, output_hidden_states=True)
        features: mx.array = self.model.connector(states)
        return features.reshape(-1, features.shape[-1])
