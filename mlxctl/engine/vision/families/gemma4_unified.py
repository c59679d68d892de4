"""Gemma 4 unified: patches, or 40 ms of samples, projected to cells."""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from mlxctl.engine.vision.encoders import patches_of
from mlxctl.engine.vision.families import gemma4
from mlxctl.engine.vision.families.gemma4 import embedding_scale


class Encoder(gemma4.Encoder):
    """Projects patches of a cell each."""

    def stacks(self) -> Sequence[list[Any]]:
        """Return no layers."""
        return []

    def features(self, tiles: Sequence[mx.array]) -> mx.array:
        """Return the features of its cells."""
        size = self.recipe.cell_size
        rows, columns = tiles[0].shape[0] // size, tiles[0].shape[1] // size
        patches = patches_of(tiles[0], size).transpose(0, 2, 3, 1).reshape(1, rows * columns, -1)
        places = mx.stack([*mx.meshgrid(mx.arange(columns), mx.arange(rows))], axis=-1).reshape(1, -1, 2)
        states: mx.array = self.model.get_image_features(patches, places)
        return states / embedding_scale(self.model)


class AudioEncoder(gemma4.AudioEncoder):
    """Projects samples: there is no tower."""

    def stacks(self) -> Sequence[list[Any]]:
        """Return no layers."""
        return []

    def features(self, frames: mx.array, num_cells: int) -> mx.array:
        """Return the features of its cells."""
        states: mx.array = self.model.embed_audio(frames[None])[0, :num_cells]
        return states / embedding_scale(self.model)
