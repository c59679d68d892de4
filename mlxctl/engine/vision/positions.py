"""Where the tokens of a prompt with pictures stand, for models whose positions have three axes: time, row, column. Pure.

Words advance on all axes at once. The cells of a picture share one time and differ in row and column; what follows the picture goes
on where its longer side ends, which is earlier than its number of tokens says (Qwen2-VL, arXiv 2409.12191, section 2.1).
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from mlxctl.ir import Picture

Positions = np.ndarray[Any, np.dtype[np.int32]]


class Stretch(NamedTuple):
    """Tokens of a prompt, from `start` to `end`, that are words, or of one picture."""

    start: int
    end: int
    picture: Picture | None


def stretches(pictures: Sequence[Picture], start: int, end: int) -> Iterator[Stretch]:
    """Divide a slice of a prompt into words and pictures; a picture may begin before the slice, or end after it."""
    for picture in pictures:
        begin, stop = max(picture.start, start), min(picture.end, end)
        if begin >= stop:
            continue
        if start < begin:
            yield Stretch(start, begin, None)
        yield Stretch(begin, stop, picture)
        start = stop
    if start < end:
        yield Stretch(start, end, None)


def shift_at(pictures: Sequence[Picture], place: int) -> int:
    """Return by how much the position of the token at `place`, which is of no picture, differs from `place`."""
    return sum(picture.num_positions - picture.num_tokens for picture in pictures if picture.start < place)


def three_axis_positions(pictures: Sequence[Picture], start: int, end: int, *, cell_size: int) -> Positions:
    """Return the positions (3, tokens) of a slice."""
    positions: Positions = np.tile(np.arange(start, end, dtype=np.int32), (3, 1))
    for stretch in stretches(pictures, start, end):
        places = slice(stretch.start - start, stretch.end - start)
        picture = stretch.picture
        if picture is None:
            positions[:, places] += shift_at(pictures, stretch.start)
        else:
            cells: Positions = np.arange(stretch.start, stretch.end, dtype=np.int32) - picture.start
            row, column = np.divmod(cells, picture.width // cell_size)
            positions[:, places] = picture.start + shift_at(pictures, picture.start)
            positions[1, places] += row
            positions[2, places] += column
    return positions
