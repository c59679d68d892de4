"""Gemma 4 unified: 40 ms of samples a cell."""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from mlxctl.engine.vision.families import gemma4
from mlxctl.engine.vision.families.gemma4 import embedding_scale


class AudioEncoder(gemma4.AudioEncoder):
    """Projects samples: there is no tower."""

    def stacks(self) -> Sequence[list[Any]]:
        """Return no layers."""
        return []

    def features(self, frames: mx.array, num_cells: int) -> mx.array:
        """Return the features of its cells."""
        states: mx.array = self.model.embed_audio(frames[None])[0, :num_cells]
        return states / embedding_scale(self.model)
