"""Gemma 3: a square with a fixed number of tokens."""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from mlxctl.engine.vision.encoders import CellEncoder
from mlxctl.engine.vision.forward_context import ForwardContextHolder
from mlxctl.engine.vision.layers import attend_within_images
from mlxctl.ir import VisionRecipe


class Encoder(CellEncoder):
    """Encodes a square."""

    def __init__(self, model: Any, recipe: VisionRecipe, decoder: Any) -> None:
        super().__init__(model, recipe, decoder)
        # The text model multiplies all its inputs by this, as it has to for token embeddings.
        self._scale = mx.array(model.config.text_config.hidden_size**0.5, mx.bfloat16)
        mx.eval(self._scale)

    def stacks(self) -> Sequence[list[Any]]:
        """Return the layers of the tower."""
        return [self.model.vision_tower.vision_model.encoder.layers]

    def features(self, tiles: Sequence[mx.array]) -> mx.array:
        """Return the features of its cells."""
        tower = self.model.vision_tower
        kind = tower.vision_model.post_layernorm.weight.dtype
        states = self.model.multi_modal_projector(tower(tiles[0][None].astype(kind))[0])[0]
        scaled: mx.array = states / self._scale.astype(states.dtype)
        return scaled

    def adapt(self, contexts: ForwardContextHolder) -> None:
        """Let the tokens of an image attend to each other."""
        attend_within_images(self.decoder.layers, contexts)
