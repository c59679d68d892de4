"""Images as a model sees them: decoded, brought to a grid of cells, and their places in the prompt.

Slow: for worker threads.
"""

import math
from collections.abc import Sequence
from typing import Any

from mlxctl.adapters.media.image_files import decode_image, open_images
from mlxctl.adapters.prepared import PromptTokens
from mlxctl.adapters.tokens.vocabulary import Vocabulary
from mlxctl.errors import InvalidRequest
from mlxctl.ir import ImagePart, ModelFacts, ProcessedImage, VisionKind, VisionRecipe

# What a request's images may take together, once cut: they cross to the engine in one frame.
_MAX_BYTES = 96 * 1024 * 1024
# What a chat template is given for an image, and what the model reads where that stood; {} is the token of a
# cell. Gemma's template trims messages, so the empty lines around a image come after it, as in the model's
# own processor.
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

# What Qwen's processor refuses: such a line would become a row of cells without end.
_MAX_RATIO = 200


def open_image_placement(
    facts: ModelFacts, vocabulary: Vocabulary
) -> tuple["ImagePlacement | None", str | None]:
    """Return what a model does with images, or None and, for one whose files claim that it sees, why it does
    not.
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
    """What a model does with images; `placeholder` is the text that stands for one in a message.

    Thread-safe.
    """

    def __init__(self, recipe: VisionRecipe, *, cell_text: str, frame_ids: Sequence[int]) -> None:
        """`cell_text` is the token of a cell; `frame_ids` are those that frame a image, in the order of its
        kind.
        """
        self._recipe = recipe
        self._cell_text = cell_text
        self.placeholder, self._framed = (text.format(cell_text) for text in _TEXTS[recipe.kind])
        self._frame_ids = frame_ids

    def frame(self, text: str) -> str:
        """Return a prompt as the model reads it: each placeholder as one cell in its frame."""
        return text.replace(self.placeholder, self._framed)

    def put_in(self, token_ids: Sequence[int], images: Sequence[ImagePart]) -> PromptTokens:
        """Replace each cell by the tokens of its image.

        Raises InvalidRequest for what is no image, or too much.
        """
        opened = open_images(images)
        if sum(token_id == self._recipe.image_token_id for token_id in token_ids) != len(images):
            texts = " or ".join(repr(text) for text in dict.fromkeys((self.placeholder, self._cell_text)))
            raise InvalidRequest(
                f"the text holds {texts}, which stands for an image to this model; leave it out",
                param="messages",
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
    """Return height and width, whole cells, for a image of this size.

    Raises InvalidRequest for one too long for the model.
    """
    match recipe.kind:
        case "pixtral":
            return _below_edge(recipe, height, width)
        case "qwen":
            return _between_areas(recipe, height, width)
        case "gemma":
            return recipe.side, recipe.side


def _below_edge(recipe: VisionRecipe, height: int, width: int) -> tuple[int, int]:
    """No side longer than the longest edge, then rounded up to whole cells."""
    ratio = max(height, width) / recipe.longest_edge
    if ratio > 1:
        height, width = int(height / ratio), int(width / ratio)
    cell = recipe.cell_size
    return (max(height - 1, 0) // cell + 1) * cell, (max(width - 1, 0) // cell + 1) * cell


def _between_areas(recipe: VisionRecipe, height: int, width: int) -> tuple[int, int]:
    """The nearest whole cells, unless that is too many pixels or too few: then the sides shrink or grow in
    their proportion.
    """
    if max(height, width) > _MAX_RATIO * min(height, width):
        message = f"an image of {width} x {height} pixels is too long for this model: one side may be {_MAX_RATIO} times the other"
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
