"""Pictures in a prompt: how a model wants them cut, and one that was. Pure values."""

from dataclasses import dataclass
from hashlib import blake2b

_DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class SightRecipe:
    """How a model of the Pixtral kind sees: a picture is a grid of cells, each one token, a token after each row, one at the end.

    A cell has `cell_size` pixels a side, no picture more than `longest_edge`. Colours from 0 to 1 are lessened by `mean` and
    divided by `deviation`, for red, green and blue.
    """

    image_token_id: int
    cell_size: int
    longest_edge: int
    mean: tuple[float, float, float]
    deviation: tuple[float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A picture whose tokens are `num_tokens` of a prompt from `start` on; `pixels` are bytes of red, green, blue, row by row.

    `digest` tells it from every other one: of its size and its pixels, which its tokens say nothing of.
    """

    start: int
    num_tokens: int
    height: int
    width: int
    pixels: bytes
    digest: bytes

    @classmethod
    def of(cls, pixels: bytes, *, height: int, width: int, start: int, num_tokens: int) -> "Picture":
        """Return the picture with its digest."""
        digest = blake2b(b"%d x %d:" % (height, width), digest_size=_DIGEST_BYTES)
        digest.update(pixels)
        return cls(start=start, num_tokens=num_tokens, height=height, width=width, pixels=pixels, digest=digest.digest())

    @property
    def end(self) -> int:
        """Position after its last token."""
        return self.start + self.num_tokens
