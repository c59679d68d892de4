"""Images of a prompt: decoding, and their tokens in place.

Slow: for workers.
"""

import math
from collections.abc import Sequence
from typing import Any

from mlxctl.formats.adapters.media.image_files import decode_image, open_images
from mlxctl.formats.adapters.prepared import PromptTokens
from mlxctl.formats.adapters.tokens.vocabulary import Vocabulary
from mlxctl.formats.vision.family import VisionFamily
from mlxctl.formats.vision.registry import VISION_FAMILIES
from mlxctl.ir import ImagePart, ModelFacts, ProcessedImage, VisionRecipe
from mlxctl.ir.errors import InvalidRequest

# Limit for the pixels of a request's images, which are sent to the engine in one frame: 85 megapixels.
_MAX_BYTES = 256 * 1024 * 1024


def open_image_placement(
    facts: ModelFacts, vocabulary: Vocabulary, *, max_pixels: int | None = None
) -> tuple["ImagePlacement | None", str | None]:
    """Return how the model places images, or the reason why it cannot.

    Both are None for a model that is not a vision model. Larger images than `max_pixels` are scaled down.
    """
    if facts.vision is None:
        return None, facts.vision_problem
    family = VISION_FAMILIES[facts.vision.family]
    if facts.vision.image_token_id not in vocabulary.added:
        return None, f"its tokenizer has no token {facts.vision.image_token_id} for images"
    missing = next((text for text in family.tokens if vocabulary.id_of(text) is None), None)
    if missing is not None:
        return None, f"its tokenizer has no token {missing} for images"
    return ImagePlacement(facts.vision, family, vocabulary, max_pixels=max_pixels), None


class ImagePlacement:
    """Inserts images into a prompt; `placeholder` marks one in a message.

    Thread-safe.
    """

    def __init__(
        self,
        recipe: VisionRecipe,
        family: VisionFamily,
        vocabulary: Vocabulary,
        *,
        max_pixels: int | None = None,
    ) -> None:
        self._recipe = recipe
        self._family = family
        self._vocabulary = vocabulary
        self._max_pixels = max_pixels
        cell = vocabulary.added[recipe.image_token_id].text
        self.placeholder = family.shown.format(cell)
        self._replaced = [
            (old.format(cell), new.format(cell))
            for old, new in (*family.rewritten, (family.shown, family.read))
        ]

    def frame(self, text: str) -> str:
        """Replace each placeholder by one cell between its frame tokens."""
        for old, new in self._replaced:
            text = text.replace(old, new)
        return text

    def insert(self, token_ids: Sequence[int], images: Sequence[ImagePart]) -> PromptTokens:
        """Replace each cell by the tokens of its image.

        Raises InvalidRequest for data that is no image, and for too much of it.
        """
        opened = open_images(images)
        num_cells = sum(token_id == self._recipe.image_token_id for token_id in token_ids)
        if num_cells != len(images):
            raise InvalidRequest(
                f"the chat template shows {num_cells} of {len(images)} images", param="messages"
            )
        written: list[int] = []
        processed: list[ProcessedImage] = []
        for token_id in token_ids:
            if token_id != self._recipe.image_token_id:
                written.append(token_id)
                continue
            number = len(processed)
            decoded = self._bounded(decode_image(opened[number], images[number].param))
            cells, image = self._cut(decoded, start=len(written))
            written += cells
            processed.append(image)
            if sum(len(image.pixels) for image in processed) > _MAX_BYTES:
                message = (
                    f"the images have more than {_MAX_BYTES // 3} pixels together, as the model reads them: "
                    "send fewer, or smaller ones (vision.max_image_pixels scales them down)"
                )
                raise InvalidRequest(message, param="messages")
        return PromptTokens(token_ids=tuple(written), images=tuple(processed))

    def _bounded(self, decoded: Any) -> Any:
        """Return an image with at most `max_pixels`, in its proportions."""
        num_pixels = decoded.width * decoded.height
        if self._max_pixels is None or num_pixels <= self._max_pixels:
            return decoded
        scale = math.sqrt(self._max_pixels / num_pixels)
        size = (max(1, int(decoded.width * scale)), max(1, int(decoded.height * scale)))
        return decoded.resize(size, resample=self._recipe.resample)

    def _cut(self, decoded: Any, *, start: int) -> tuple[list[int], ProcessedImage]:
        cut = self._family.cut(decoded, self._recipe)
        cells: list[int] = []
        for piece in cut.layout:
            cells += (
                [self._recipe.image_token_id] * piece
                if isinstance(piece, int)
                else self._vocabulary.encode_inside(piece)
            )
        image = ProcessedImage.of(
            b"".join(tile.tobytes() for tile in cut.tiles),
            tiles=tuple((tile.height, tile.width) for tile in cut.tiles),
            start=start,
            num_tokens=len(cells),
            num_positions=len(cells) if cut.num_positions is None else cut.num_positions,
            is_whole=cut.is_whole,
        )
        return cells, image
