"""Images and clips of a prompt: decoding, and their tokens in place.

Slow: for workers.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from mlxctl.formats.adapters.media.clips import ClipReader
from mlxctl.formats.adapters.media.image_files import decode_image, open_images
from mlxctl.formats.adapters.prepared import PromptTokens
from mlxctl.formats.adapters.tokens.vocabulary import Vocabulary
from mlxctl.formats.vision.family import ClipFormat, ImageCut, VisionFamily
from mlxctl.formats.vision.registry import VISION_FAMILIES
from mlxctl.ir import (
    Clip,
    ImagePart,
    Message,
    ModelFacts,
    ProcessedImage,
    SeenPart,
    VideoPart,
    VisionRecipe,
)
from mlxctl.ir.errors import InvalidRequest

# Limit for the pixels of a request's images, which are sent to the engine in one frame: 85 megapixels.
_MAX_BYTES = 256 * 1024 * 1024
# Frames of a clip for a model that reads them as images, each of hundreds of tokens.
_MAX_IMAGE_FRAMES = 16
MAX_VIDEO_FRAMES = 64
"""Frames of a clip, unless the operator sets another limit."""


def open_image_placement(
    facts: ModelFacts,
    vocabulary: Vocabulary,
    *,
    max_pixels: int | None = None,
    max_frames: int = MAX_VIDEO_FRAMES,
) -> tuple["ImagePlacement | None", str | None]:
    """Return how the model places images, or the reason why it cannot.

    Both are None for a model that is not a vision model. Larger images than `max_pixels` are scaled down, and
    a clip has at most `max_frames`.
    """
    if facts.vision is None:
        return None, facts.vision_problem
    family = VISION_FAMILIES[facts.vision.family]
    missing = vocabulary.first_missing(facts.vision.image_token_id, family.tokens)
    if missing is not None:
        return None, f"its tokenizer has no token {missing} for images"
    placement = ImagePlacement(facts.vision, family, vocabulary, max_pixels=max_pixels, max_frames=max_frames)
    return placement, None


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
        max_frames: int = MAX_VIDEO_FRAMES,
    ) -> None:
        self._recipe = recipe
        self._family = family
        self._vocabulary = vocabulary
        self._max_pixels = max_pixels
        self._max_frames = max_frames
        cell = vocabulary.added[recipe.image_token_id].text
        self.placeholder = family.shown.format(cell)
        own = family.clips if _reads_clips(family, recipe, vocabulary) else None
        self._clips = own or ClipFormat(
            write=lambda clip, _: family.shown * len(clip.seconds),
            cut=lambda clip, recipe: [family.cut(picture, recipe) for picture in clip.pictures],
            max_frames=_MAX_IMAGE_FRAMES,
        )
        cell_id = recipe.video_token_id if self._clips.has_own_cell else None
        self._clip_cell = cell if cell_id is None else vocabulary.added[cell_id].text
        self._replaced = [
            (old.format(cell), new.format(cell))
            for old, new in (*family.rewritten, (family.shown, family.read))
        ]

    def frame(self, text: str) -> str:
        """Replace each placeholder by one cell between its frame tokens."""
        for old, new in self._replaced:
            text = text.replace(old, new)
        return text

    def with_clips(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Return the messages with the frames of their clips. Raises InvalidRequest."""
        return ClipReader(most=self._max_frames, usual=self._clips.max_frames).read(messages)

    def shown(self, part: SeenPart) -> str:
        """Return the text of an image or a clip in a message.

        It has a cell for each image or group of frames.
        """
        if isinstance(part, ImagePart):
            return self.placeholder
        return self._clips.write(_decoded(part), self._recipe).replace("{}", self._clip_cell)

    def insert(self, token_ids: Sequence[int], images: Sequence[SeenPart]) -> PromptTokens:
        """Replace each cell by the tokens of its image or frames.

        Raises InvalidRequest for data that is no image, and for too much of it.
        """
        num_cuts = sum(
            1 if isinstance(part, ImagePart) else self.frame(self.shown(part)).count(self._clip_cell)
            for part in images
        )
        if self._family.max_images is not None and num_cuts > self._family.max_images:
            message = (
                f"there are {num_cuts} images in the conversation; {self._family.name} models take "
                f"{self._family.max_images} in a prompt, since their class in mlx-vlm reads no more: "
                "send the others in requests of their own"
            )
            raise InvalidRequest(message, param="messages")
        cell_ids, cuts = self._recipe.cell_token_ids, self._cuts(images)
        num_cells = sum(token_id in cell_ids for token_id in token_ids)
        if num_cells != num_cuts:
            raise InvalidRequest(
                f"the chat template shows {num_cells} of {num_cuts} images", param="messages"
            )
        written: list[int] = []
        processed: list[ProcessedImage] = []
        for token_id in token_ids:
            if token_id not in cell_ids:
                written.append(token_id)
                continue
            cells, image = self._processed(next(cuts), token_id, start=len(written))
            written += cells
            processed.append(image)
            if sum(len(image.pixels) for image in processed) > _MAX_BYTES:
                message = (
                    f"the images have more than {_MAX_BYTES // 3} pixels together, as the model reads them: "
                    "send fewer, or smaller ones (vision.max_image_pixels scales them down)"
                )
                raise InvalidRequest(message, param="messages")
        return PromptTokens(token_ids=tuple(written), images=tuple(processed))

    def _cuts(self, parts: Sequence[SeenPart]) -> Iterator[ImageCut]:
        """Yield what takes the place of each cell."""
        opened = iter(open_images([part for part in parts if isinstance(part, ImagePart)]))
        image_numbers, clip_numbers = count(), count()
        for part in parts:
            if isinstance(part, ImagePart):
                image = self._bounded(decode_image(next(opened), part.param))
                yield self._numbered(self._family.cut(image, self._recipe), next(image_numbers))
            else:
                clip = _decoded(part)
                bounded = replace(clip, pictures=tuple(map(self._bounded, clip.pictures)))
                first, *others = self._clips.cut(bounded, self._recipe)
                yield self._numbered(first, next(clip_numbers))
                yield from others

    def _numbered(self, cut: ImageCut, number: int) -> ImageCut:
        """Return an image, or a clip's first group, after its number."""
        if self._family.number is None:
            return cut
        return replace(cut, layout=[self._family.number(number, self._recipe), *cut.layout])

    def _bounded(self, decoded: Any) -> Any:
        """Return an image with at most `max_pixels`, in its proportions."""
        num_pixels = decoded.width * decoded.height
        if self._max_pixels is None or num_pixels <= self._max_pixels:
            return decoded
        scale = math.sqrt(self._max_pixels / num_pixels)
        size = (max(1, int(decoded.width * scale)), max(1, int(decoded.height * scale)))
        return decoded.resize(size, resample=self._recipe.resample)

    def _processed(self, cut: ImageCut, cell_id: int, *, start: int) -> tuple[list[int], ProcessedImage]:
        cells: list[int] = []
        for piece in cut.layout:
            cells += [cell_id] * piece if isinstance(piece, int) else self._vocabulary.encode_inside(piece)
        image = ProcessedImage.of(
            b"".join(tile.tobytes() for tile in cut.tiles),
            tiles=tuple((tile.height, tile.width) for tile in cut.tiles),
            start=start,
            num_tokens=len(cells),
            num_positions=len(cells) if cut.num_positions is None else cut.num_positions,
            is_whole=cut.is_whole,
            time=cut.time,
        )
        return cells, image


def _reads_clips(family: VisionFamily, recipe: VisionRecipe, vocabulary: Vocabulary) -> bool:
    """Whether the vocabulary has all tokens of the family's clips."""
    clips = family.clips
    return (
        clips is not None
        and (not clips.has_own_cell or recipe.video_token_id in vocabulary.added)
        and all(vocabulary.id_of(text) is not None for text in clips.tokens)
    )


def _decoded(part: VideoPart) -> Clip:
    assert part.clip is not None, "the request was normalized"
    return part.clip
