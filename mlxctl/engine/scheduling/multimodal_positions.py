"""Where the tokens of a prompt with images stand, for models whose positions have three axes: time, row,
column. Pure.

Words advance on all axes at once. The cells of a image share one time and differ in row and column; what
follows the image goes on where its longer side ends, which is earlier than its number of tokens says
(Qwen2-VL, arXiv 2409.12191, section 2.1).
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from mlxctl.ir import ProcessedImage

Positions = np.ndarray[Any, np.dtype[np.int32]]


class PromptSegment(NamedTuple):
    """Tokens of a prompt, from `start` to `end`, that are words, or of one image."""

    start: int
    end: int
    image: ProcessedImage | None


def prompt_segments(images: Sequence[ProcessedImage], start: int, end: int) -> Iterator[PromptSegment]:
    """Divide a slice of a prompt into words and images; a image may begin before the slice, or end after it."""
    for image in images:
        admit, stop = max(image.start, start), min(image.end, end)
        if admit >= stop:
            continue
        if start < admit:
            yield PromptSegment(start, admit, None)
        yield PromptSegment(admit, stop, image)
        start = stop
    if start < end:
        yield PromptSegment(start, end, None)


def shift_at(images: Sequence[ProcessedImage], place: int) -> int:
    """Return by how much the position of the token at `place`, which is of no image, differs from `place`."""
    return sum(image.num_positions - image.num_tokens for image in images if image.start < place)


def three_axis_positions(
    images: Sequence[ProcessedImage], start: int, end: int, *, cell_size: int
) -> Positions:
    """Return the positions (3, tokens) of a slice."""
    positions: Positions = np.tile(np.arange(start, end, dtype=np.int32), (3, 1))
    for stretch in prompt_segments(images, start, end):
        places = slice(stretch.start - start, stretch.end - start)
        image = stretch.image
        if image is None:
            positions[:, places] += shift_at(images, stretch.start)
        else:
            cells: Positions = np.arange(stretch.start, stretch.end, dtype=np.int32) - image.start
            row, column = np.divmod(cells, image.width // cell_size)
            positions[:, places] = image.start + shift_at(images, image.start)
            positions[1, places] += row
            positions[2, places] += column
    return positions
