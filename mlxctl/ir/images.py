"""Pictures in a prompt: how a model wants them cut, and one that was. Pure values."""

from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal

VisionKind = Literal["pixtral", "qwen", "gemma"]

_DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class VisionRecipe:
    """How a model sees.

    A image is brought to whole cells of `cell_size` pixels a side; each cell is one token.

    pixtral: no side is longer than `longest_edge`; a token follows each row of cells, and one stands at the
    end. qwen: a image has from `min_pixels` to `max_pixels`. Positions have three axes, time, row and column;
    `axes` tells for each frequency of the rotary embedding which of them (0, 1, 2) it follows. gemma: a image
    is a square of `side` pixels, and its tokens attend to each other both ways.

    Colors from 0 to 1 are lessened by `mean` and divided by `deviation`, for red, green and blue. `resample`
    is the filter that images are resized with, by Pillow's number.
    """

    kind: VisionKind
    image_token_id: int
    cell_size: int
    mean: tuple[float, float, float]
    deviation: tuple[float, float, float]
    resample: int
    longest_edge: int = 0
    min_pixels: int = 0
    max_pixels: int = 0
    side: int = 0
    axes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessedImage:
    """A image whose tokens are `num_tokens` of a prompt from `start` on; `pixels` are bytes of red, green,
    blue, row by row.

    What follows it goes on `num_positions` later than where it began, which for some models is less than it
    has tokens. With `is_whole` its tokens attend to each other both ways, so they are read together. `digest`
    tells it from every other one: of its size and its pixels, which its tokens say nothing of.
    """

    start: int
    num_tokens: int
    num_positions: int
    height: int
    width: int
    pixels: bytes
    digest: bytes
    is_whole: bool = False

    @classmethod
    def of(
        cls,
        pixels: bytes,
        *,
        height: int,
        width: int,
        start: int,
        num_tokens: int,
        num_positions: int,
        is_whole: bool = False,
    ) -> "ProcessedImage":
        """Return the image with its digest."""
        digest = blake2b(b"%d x %d:" % (height, width), digest_size=_DIGEST_BYTES)
        digest.update(pixels)
        return cls(
            start=start,
            num_tokens=num_tokens,
            num_positions=num_positions,
            height=height,
            width=width,
            pixels=pixels,
            digest=digest.digest(),
            is_whole=is_whole,
        )

    @property
    def end(self) -> int:
        """Position after its last token."""
        return self.start + self.num_tokens
