"""Gemma 4: cells of pooled patches."""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from mlxctl.engine.vision.encoders import CellEncoder
from mlxctl.engine.vision.forward_context import ForwardContextHolder
from mlxctl.engine.vision.layers import TextEmbedding, attend_within_windows


class Encoder(CellEncoder):
    """Encodes a picture of any size."""

    def stacks(self) -> Sequence[list[Any]]:
        """Return the layers of the tower."""
        return [self.model.vision_tower.encoder.layers]

    def features(self, tiles: Sequence[mx.array]) -> mx.array:
        """Return the features of its cells."""
        states: mx.array = self.model.encode_image(tiles[0].transpose(2, 0, 1)[None])[0]
        # The text model multiplies all its inputs by this, as it has to for token embeddings.
        scaled: mx.array = states / self.model.config.text_config.hidden_size**0.5
        return scaled

    def adapt(self, contexts: ForwardContextHolder) -> None:
        """Keep cells out of the embeddings of layers.

        Larger models attend to an image in both directions.
        """
        decoder = self.decoder
        if decoder.hidden_size_per_layer_input:
            decoder.embed_tokens_per_layer = TextEmbedding(
                decoder.embed_tokens_per_layer, self.recipe.image_token_id
            )
        if self.recipe.sizes["is_whole"]:
            attend_within_windows(decoder, contexts)
