"""Images as a model sees them: decoded, brought to a grid of cells, and their places in the prompt. Slow: for worker threads.

The size is that of Pixtral's processor: no side longer than the model's longest edge, then rounded up to whole cells.
"""

import io
from collections.abc import Sequence
from typing import Any

from mlxctl.adapters.prepared import PromptTokens
from mlxctl.adapters.vocabulary import Vocabulary
from mlxctl.errors import BrokenModel, InvalidRequest
from mlxctl.ir import ImagePart, ModelFacts, Picture, SightRecipe

MAX_IMAGES = 16
"""The most images of one prompt."""

_MAX_PIXELS = 50_000_000
# What a request's pictures may take together, once cut: they cross to the engine in one frame.
_MAX_BYTES = 96 * 1024 * 1024
_FORMATS = ("PNG", "JPEG", "WEBP", "GIF")


class Sight:
    """What a model does with images; `placeholder` is the text that stands for one in a prompt. Thread-safe."""

    def __init__(self, facts: ModelFacts, recipe: SightRecipe, vocabulary: Vocabulary) -> None:
        """Raises BrokenModel when the tokenizer lacks the tokens that frame a picture."""
        self._recipe = recipe
        token = vocabulary.added.get(recipe.image_token_id)
        row_end, end = vocabulary.id_of("[IMG_BREAK]"), vocabulary.id_of("[IMG_END]")
        if token is None or row_end is None or end is None:
            raise BrokenModel(facts.path, f"the tokenizer of {facts.path.name!r} has no tokens for pictures")
        self.placeholder = token.text
        self._row_end_id, self._end_id = row_end, end

    def put_in(self, token_ids: Sequence[int], images: Sequence[ImagePart]) -> PromptTokens:
        """Replace each placeholder by the tokens of its image. Raises InvalidRequest for what is no image, or too much."""
        if len(images) > MAX_IMAGES:
            raise InvalidRequest(f"there are {len(images)} images; a request may have {MAX_IMAGES}", param="messages")
        if sum(token_id == self._recipe.image_token_id for token_id in token_ids) != len(images):
            message = f"the text holds {self.placeholder!r}, which stands for an image to this model; leave it out"
            raise InvalidRequest(message, param="messages")
        written: list[int] = []
        pictures: list[Picture] = []
        for token_id in token_ids:
            if token_id != self._recipe.image_token_id:
                written.append(token_id)
                continue
            cells, picture = self._cut(images[len(pictures)], start=len(written))
            written += cells
            pictures.append(picture)
            if sum(len(picture.pixels) for picture in pictures) > _MAX_BYTES:
                raise InvalidRequest("the images are too large together; send fewer, or smaller ones", param="messages")
        return PromptTokens(token_ids=tuple(written), pictures=tuple(pictures))

    def _cut(self, image: ImagePart, *, start: int) -> tuple[list[int], Picture]:
        decoded = _decoded(image)
        num_rows, num_columns = self._grid(height=decoded.height, width=decoded.width)
        height, width = num_rows * self._recipe.cell_size, num_columns * self._recipe.cell_size
        pixels = decoded.convert("RGB").resize((width, height), resample=_bicubic()).tobytes()
        row = [self._recipe.image_token_id] * num_columns
        cells = [*[*row, self._row_end_id] * (num_rows - 1), *row, self._end_id]
        return cells, Picture.of(pixels, height=height, width=width, start=start, num_tokens=len(cells))

    def _grid(self, *, height: int, width: int) -> tuple[int, int]:
        ratio = max(height, width) / self._recipe.longest_edge
        if ratio > 1:
            height, width = int(height / ratio), int(width / ratio)
        return max(height - 1, 0) // self._recipe.cell_size + 1, max(width - 1, 0) // self._recipe.cell_size + 1


def _decoded(image: ImagePart) -> Any:
    """Decode an image, after a look at its size: a small file may hold a huge picture."""
    from PIL import Image, UnidentifiedImageError

    try:
        opened = Image.open(io.BytesIO(image.data), formats=_FORMATS)
        if opened.width * opened.height > _MAX_PIXELS:
            message = f"an image has {opened.width} x {opened.height} pixels; it may have {_MAX_PIXELS} in all"
            raise InvalidRequest(message, param="messages")
        opened.load()
    except UnidentifiedImageError:
        raise InvalidRequest(f"an image is none of {', '.join(_FORMATS)}", param="messages") from None
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise InvalidRequest(f"an image cannot be decoded: {error}", param="messages") from error
    return opened


def _bicubic() -> Any:
    from PIL import Image

    return Image.Resampling.BICUBIC
