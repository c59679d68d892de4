"""Qwen3-Omni: audio in windows of a second."""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from mlxctl.engine.vision.encoders import FrameEncoder


class AudioEncoder(FrameEncoder):
    """Encodes a spectrogram."""

    def stacks(self) -> Sequence[list[Any]]:
        """Return the layers of the tower."""
        return [self.model.audio_tower.layers]

    def features(self, frames: mx.array, num_cells: int) -> mx.array:  # noqa: ARG002
        """Return the features of its cells."""
        states: mx.array = self.model.audio_tower(frames.T)
        return states
