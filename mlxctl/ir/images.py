"""Images of a prompt and their preprocessing. Pure values."""

from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal

VisionKind = Literal["pixtral", "qwen", "gemma"]

_DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class VisionRecipe:
    """How a model's images are preprocessed.

    An image is resized to whole cells of `cell_size` pixels a side; each cell is one token.

    pixtral: no side is longer than `longest_edge`; one token follows each row of cells, and another ends the
    image. qwen: an image has `min_pixels` to `max_pixels` pixels. Positions have three axes: time, row and
    column; `axes` has the axis (0, 1, 2) of each rotary frequency. gemma: an image is a square of `side`
    pixels, and its tokens attend to each other in both directions.

    Colors from 0 to 1 are normalized by `mean` and `deviation` for red, green and blue. `resample` is
    Pillow's number of the resize filter.
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
    """One preprocessed image: `num_tokens` of a prompt from `start` on.

    `pixels` are bytes of red, green, blue, row by row. Positions after it continue `num_positions` after its
    start, which for some models is less than its number of tokens. With `is_whole` its tokens attend to each
    other in both directions, so they are prefilled together. `digest` is a hash of size and pixels: the token
    ids of all images are the same.
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
        """The position after its last token."""
        return self.start + self.num_tokens
