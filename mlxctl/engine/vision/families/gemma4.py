"""Gemma 4: cells of pooled patches, and of four frames."""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from mlxctl.engine.vision.encoders import FrameEncoder, TileEncoder
from mlxctl.engine.vision.forward_context import ForwardContextHolder
from mlxctl.engine.vision.layers import attend_within_windows, keep_out_of_layers


class Encoder(TileEncoder):
    """Encodes a picture of any size."""

    def stacks(self) -> Sequence[list[Any]]:
        """Return the layers of the tower."""
        return [self.model.vision_tower.encoder.layers]

    def features(self, tiles: Sequence[mx.array]) -> mx.array:
        """Return the features of its cells."""
        states: mx.array = self.model.encode_image(tiles[0].transpose(2, 0, 1)[None])[0]
        return states / embedding_scale(self.model)

    def adapt(self, contexts: ForwardContextHolder) -> None:
        """Keep cells out of the embeddings of layers.

        Larger models attend to an image in both directions.
        """
        keep_out_of_layers(self.decoder, self.recipe.cell_token_ids)
        if self.recipe.sizes["is_whole"]:
            attend_within_windows(self.decoder, contexts)


class AudioEncoder(FrameEncoder):
    """Encodes a spectrogram."""

    def stacks(self) -> Sequence[list[Any]]:
        """Return the layers of the tower."""
        return [self.model.audio_tower.layers]

    def features(self, frames: mx.array, num_cells: int) -> mx.array:
        """Return the features of its cells."""
        encoded, _ = self.model.audio_tower(frames[None], mx.zeros((1, frames.shape[0]), dtype=mx.bool_))
        states: mx.array = self.model.embed_audio(encoded)[0, :num_cells]
        return states / embedding_scale(self.model)

    def adapt(self, contexts: ForwardContextHolder) -> None:  # noqa: ARG002
        """Keep cells out of the embeddings of layers."""
        keep_out_of_layers(self.decoder, self.recipe.cell_token_ids)


def embedding_scale(model: Any) -> float:
    """Return the factor of all inputs of the text model.

    It belongs to token embeddings only, so features are divided by it.
    """
    scale: float = model.config.text_config.hidden_size**0.5
    return scale
