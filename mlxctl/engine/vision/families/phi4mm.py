"""Phi-4 multimodal: patches, and eight frames of audio a cell."""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from mlxctl.engine.vision.encoders import FrameEncoder, TileEncoder, patches_of


class Encoder(TileEncoder):
    """Encodes a picture of any size."""

    def stacks(self) -> Sequence[list[Any]]:
        """Return the layers of the tower."""
        return [self.model.vision_tower.vision_tower.encoder.layers]

    def features(self, tiles: Sequence[mx.array]) -> mx.array:
        """Return the features of its cells."""
        size = self.recipe.cell_size
        rows, columns = tiles[0].shape[0] // size, tiles[0].shape[1] // size
        patches = patches_of(tiles[0], size).transpose(0, 2, 3, 1).reshape(1, rows * columns, -1)
        states = self.model.vision_tower(patches, None, mx.array([[rows, columns]]))
        features: mx.array = self.model.apply_mm_projector(states)[0]
        return features


class AudioEncoder(FrameEncoder):
    """Encodes a spectrogram."""

    def stacks(self) -> Sequence[list[Any]]:
        """Return the layers of the tower."""
        return [self.model.audio_encoder.encoders]

    def features(self, frames: mx.array, num_cells: int) -> mx.array:
        """Return the features of its cells."""
        states, _ = self.model.audio_encoder(frames[None])
        features: mx.array = self.model.audio_projection(states, mode="speech")[0, :num_cells]
        return features
