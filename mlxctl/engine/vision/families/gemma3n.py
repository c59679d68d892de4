"""Gemma 3n: a square, or audio, to a fixed number of tokens."""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from mlxctl.engine.vision.encoders import FrameEncoder, TileEncoder
from mlxctl.engine.vision.families.gemma4 import embedding_scale


class Encoder(TileEncoder):
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
        return states / embedding_scale(model)

    def embeddings(self, token_ids: mx.array) -> mx.array:
        """Return the embedding of the token after an image, of its own."""
        return _own_embeddings(self.model, self.model.embed_vision, token_ids)


class AudioEncoder(FrameEncoder):
    """Encodes a spectrogram."""

    def stacks(self) -> Sequence[list[Any]]:
        """Return the blocks of the tower."""
        return [self.model.audio_tower.conformer]

    def features(self, frames: mx.array, num_cells: int) -> mx.array:
        """Return the features of its cells.

        Those after the audio are the embedding of its padding.
        """
        model = self.model
        states, _ = model.get_audio_features(frames[None], mx.zeros((1, frames.shape[0]), dtype=mx.bool_))
        padding = model.embed_audio(input_ids=mx.array([[model.vocab_size - 1]]))[0]
        padded = mx.concatenate([states[0, :num_cells], mx.repeat(padding, num_cells, axis=0)])[:num_cells]
        return padded / embedding_scale(model)

    def embeddings(self, token_ids: mx.array) -> mx.array:
        """Return the embedding of the token after audio, of its own."""
        return _own_embeddings(self.model, self.model.embed_audio, token_ids)


def _own_embeddings(model: Any, table: Any, token_ids: mx.array) -> mx.array:
    # Tokens of images and audio are not in the text model's table.
    inside = mx.minimum(mx.maximum(token_ids, table.vocab_offset), table.vocab_offset + table.vocab_size - 1)
    states: mx.array = table(input_ids=inside[None])[0] / embedding_scale(model)
    return states
