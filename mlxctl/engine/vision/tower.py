"""The part of a model that sees, from mlx-vlm, beside the part that reads and writes, from mlx-lm. MLX thread only.

The prompt of a picture is embedded at once, word tokens by the model's own table, and then read in slices like any other.
"""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import numpy as np

from mlxctl.ir import Picture, SightRecipe


class Tower:
    """Turns prompts with pictures into embeddings. `model` is mlx-vlm's, without its own layers for words."""

    def __init__(self, model: Any, words: Any, recipe: SightRecipe) -> None:
        """`words` is the table of word embeddings that the model reads by."""
        self._model = model
        self._words = words
        self._recipe = recipe

    def embed(self, token_ids: mx.array, pictures: Sequence[Picture]) -> mx.array:
        """Return the embeddings (1, tokens, width) of a prompt (tokens,), evaluated."""
        pieces, end = [], 0
        for picture in pictures:
            pieces.append(self._words(token_ids[None, end : picture.start]))
            end = picture.start + picture.num_tokens
            pieces.append(self._embed_picture(token_ids[None, picture.start : end], picture))
        pieces.append(self._words(token_ids[None, end:]))
        embedded = mx.concatenate([piece.astype(pieces[-1].dtype) for piece in pieces], axis=1)
        mx.eval(embedded)
        return embedded

    def _embed_picture(self, token_ids: mx.array, picture: Picture) -> mx.array:
        colours = np.frombuffer(picture.pixels, dtype=np.uint8).reshape(picture.height, picture.width, 3).astype(np.float32) / 255
        colours = (colours - np.array(self._recipe.mean, np.float32)) / np.array(self._recipe.deviation, np.float32)
        pixel_values = mx.array(colours.transpose(2, 0, 1)[None])
        sizes = [(picture.height, picture.width)]
        embedded: mx.array = self._model.get_input_embeddings(token_ids, pixel_values, image_sizes=sizes).inputs_embeds
        return embedded


def open_tower(path: Path, text_model: Any) -> tuple[Any, Any]:
    """Return mlx-vlm's model at `path`, its parameters not yet read, and the word embeddings of `text_model`, which both use."""
    from mlx_vlm.utils import load_model

    words = text_model.language_model.model.embed_tokens
    model = load_model(path, lazy=True)
    model.language_model = SimpleNamespace(model=SimpleNamespace(embed_tokens=words))
    return model, words
