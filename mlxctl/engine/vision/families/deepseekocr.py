"""DeepSeek-OCR: two towers, one after the other."""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from mlxctl.engine.vision.encoders import TileEncoder


class Encoder(TileEncoder):
    """Encodes the tiles of a large image, and the whole image."""

    def stacks(self) -> Sequence[list[Any]]:
        """Return the layers of both towers."""
        return [self.model.sam_model.blocks, self.model.vision_model.transformer.layers]

    def features(self, tiles: Sequence[mx.array]) -> mx.array:
        """Return the features of its cells, with those after each row."""
        sizes, cell = self.recipe.sizes, self.recipe.cell_size
        side, cells = sizes["tile_side"], sizes["side"] // cell
        # As its processor does.
        *large, square = (tile.astype(mx.bfloat16) for tile in tiles)
        columns = rows = 1
        num_tokens, squares = cells * (cells + 1) + 1, mx.zeros((1, 3, side, side))
        for picture in large:
            rows, columns = picture.shape[0] // side, picture.shape[1] // side
            squares = (
                picture.reshape(rows, side, columns, side, 3)
                .transpose(0, 2, 4, 1, 3)
                .reshape(rows * columns, 3, side, side)
            )
            num_tokens += rows * (side // cell) * (columns * (side // cell) + 1)
        embedded = self.model.get_input_embeddings(
            mx.full((1, num_tokens), self.recipe.image_token_id),
            [squares, square.transpose(2, 0, 1)[None]],
            mx.array([[columns, rows]]),
            mx.ones((1, num_tokens), dtype=mx.bool_),
        )
        features: mx.array = embedded.inputs_embeds[0]
        return features
