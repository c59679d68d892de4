"""Images of a prompt: decoding, patch grids and image tokens.

Slow: for workers.
"""

import math
from collections.abc import Sequence
from typing import Any

from mlxctl.formats.adapters.media.image_files import decode_image, open_images
from mlxctl.formats.adapters.prepared import PromptTokens
from mlxctl.formats.adapters.tokens.vocabulary import Vocabulary
from mlxctl.ir import ImagePart, ModelFacts, ProcessedImage, VisionKind, VisionRecipe
from mlxctl.ir.errors import InvalidRequest

# Limit for the pixels of a request's images, which are sent to the engine in one frame.
_MAX_BYTES = 96 * 1024 * 1024
# The text of an image in the chat template, and the text that the model reads; {} is a cell's token. Gemma's
# template trims messages, so the empty lines around an image are added later, as in the model's own
# processor.
_TEXTS: dict[VisionKind, tuple[str, str]] = {
    "pixtral": ("{}", "{}"),
    "qwen": ("<|vision_start|>{}<|vision_end|>", "<|vision_start|>{}<|vision_end|>"),
    "gemma": ("<start_of_image>", "\n\n<start_of_image>{}<end_of_image>\n\n"),
}
_FRAMES: dict[VisionKind, tuple[str, ...]] = {
    "pixtral": ("[IMG_BREAK]", "[IMG_END]"),
    "qwen": ("<|vision_start|>", "<|vision_end|>"),
    "gemma": ("<start_of_image>", "<end_of_image>"),
}

# Qwen's processor rejects longer images, too: a thin line would become very many cells.
_MAX_RATIO = 200


def open_image_placement(
    facts: ModelFacts, vocabulary: Vocabulary
) -> tuple["ImagePlacement | None", str | None]:
    """Return how the model places images, or the reason why it cannot.

    Both are None for a model that is not a vision model.
    """
    if facts.vision is None:
        return None, facts.vision_problem
    cell = vocabulary.added.get(facts.vision.image_token_id)
    frame_ids = {text: vocabulary.id_of(text) for text in _FRAMES[facts.vision.kind]}
    missing = [text for text, token_id in frame_ids.items() if token_id is None]
    if cell is None or missing:
        return (
            None,
            f"its tokenizer has no token {missing[0] if missing else facts.vision.image_token_id} for images",
        )
    found = [token_id for token_id in frame_ids.values() if token_id is not None]
    return ImagePlacement(facts.vision, cell_text=cell.text, frame_ids=found), None


class ImagePlacement:
    """Inserts images into a prompt; `placeholder` marks one in a message.

    Thread-safe.
    """

    def __init__(self, recipe: VisionRecipe, *, cell_text: str, frame_ids: Sequence[int]) -> None:
        """Take the cell's text and the ids that enclose an image.

        `frame_ids` are in the order of `_FRAMES`.
        """
        self._recipe = recipe
        self.placeholder, self._framed = (text.format(cell_text) for text in _TEXTS[recipe.kind])
        self._frame_ids = frame_ids

    def frame(self, text: str) -> str:
        """Replace each placeholder by one cell between its frame tokens."""
        return text.replace(self.placeholder, self._framed)

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
            decoded = decode_image(opened[len(processed)], len(processed) + 1)
            cells, image = self._cut(decoded, start=len(written))
            written += cells
            processed.append(image)
            if sum(len(image.pixels) for image in processed) > _MAX_BYTES:
                raise InvalidRequest(
                    "the images are too large together; send fewer, or smaller ones", param="messages"
                )
        return PromptTokens(token_ids=tuple(written), images=tuple(processed))

    def _cut(self, decoded: Any, *, start: int) -> tuple[list[int], ProcessedImage]:
        height, width = _fitting_size(self._recipe, height=decoded.height, width=decoded.width)
        num_rows, num_columns = height // self._recipe.cell_size, width // self._recipe.cell_size
        pixels = decoded.resize((width, height), resample=self._recipe.resample).tobytes()
        cells = self._cells(num_rows, num_columns)
        image = ProcessedImage.of(
            pixels,
            height=height,
            width=width,
            start=start,
            num_tokens=len(cells),
            num_positions=max(num_rows, num_columns) if self._recipe.kind == "qwen" else len(cells),
            is_whole=self._recipe.kind == "gemma",
        )
        return cells, image

    def _cells(self, num_rows: int, num_columns: int) -> list[int]:
        row = [self._recipe.image_token_id] * num_columns
        if self._recipe.kind != "pixtral":
            return row * num_rows
        row_end_id, end_id = self._frame_ids
        return [*[*row, row_end_id] * (num_rows - 1), *row, end_id]


def _fitting_size(recipe: VisionRecipe, *, height: int, width: int) -> tuple[int, int]:
    """Return an image's height and width in whole cells.

    The formulas are those of the models' own processors. Raises InvalidRequest for an image that is too long.
    """
    match recipe.kind:
        case "pixtral":
            return _below_edge(recipe, height, width)
        case "qwen":
            return _between_areas(recipe, height, width)
        case "gemma":
            return recipe.side, recipe.side


def _below_edge(recipe: VisionRecipe, height: int, width: int) -> tuple[int, int]:
    """Limit the sides to the longest edge; round up to cells."""
    ratio = max(height, width) / recipe.longest_edge
    if ratio > 1:
        height, width = int(height / ratio), int(width / ratio)
    cell = recipe.cell_size
    return (max(height - 1, 0) // cell + 1) * cell, (max(width - 1, 0) // cell + 1) * cell


def _between_areas(recipe: VisionRecipe, height: int, width: int) -> tuple[int, int]:
    """Round to whole cells, then scale into the model's range of pixels."""
    if max(height, width) > _MAX_RATIO * min(height, width):
        message = (
            f"an image of {width} x {height} pixels is too long for this model: "
            f"one side may be {_MAX_RATIO} times the other"
        )
        raise InvalidRequest(message, param="messages")
    cell = recipe.cell_size
    rows, columns = round(height / cell), round(width / cell)
    if rows * columns * cell**2 > recipe.max_pixels:
        shrink = math.sqrt(height * width / recipe.max_pixels)
        rows, columns = math.floor(height / shrink / cell), math.floor(width / shrink / cell)
    elif rows * columns * cell**2 < recipe.min_pixels:
        grow = math.sqrt(recipe.min_pixels / (height * width))
        rows, columns = math.ceil(height * grow / cell), math.ceil(width * grow / cell)
    return max(1, rows) * cell, max(1, columns) * cell
