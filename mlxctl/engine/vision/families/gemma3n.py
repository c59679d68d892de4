"""Gemma 3n: a square to a fixed number of tokens, by convolutions."""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from mlxctl.engine.vision.encoders import CellEncoder


class Encoder(CellEncoder):
    """Encodes a square."""

    def stacks(self) -> Sequence[list[Any]]:
        """Return the groups of the tower's blocks."""
        return self.model.vision_tower.timm_model.blocks  # type: ignore[no-any-return]

    def features(self, tiles: Sequence[mx.array]) -> mx.array:
        """Return the features of its cells."""
        model = self.model
        pixels = tiles[0].transpose(2, 0, 1)[None]
        states: mx.array = model.get_image_features(
            pixels, model.vision_tower, model.config, model.embed_vision
        )[0]
        # The text model multiplies all its inputs by this, as it has to for token embeddings.
        scaled: mx.array = states / model.config.text_config.hidden_size**0.5
        return scaled
