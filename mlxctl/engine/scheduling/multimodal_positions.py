"""Token positions of prompts with images, on three axes: time, row, column.

Pure. Text advances on all axes at once. The tokens of an image have one time and differ in row and column;
text after it continues after its longer side, which is fewer positions than tokens (Qwen2-VL, arXiv
2409.12191, section 2.1). The groups of a clip without text between them begin at the same position and differ
in time: all but the last have no positions of their own.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from mlxctl.ir import ProcessedImage

Positions = np.ndarray[Any, np.dtype[np.int32]]


class PromptSegment(NamedTuple):
    """Prompt tokens `start` to `end`: text, one image, or audio."""

    start: int
    end: int
    image: ProcessedImage | None


def prompt_segments(images: Sequence[ProcessedImage], start: int, end: int) -> Iterator[PromptSegment]:
    """Yield the text and image segments of a pass.

    Images may extend beyond it.
    """
    for image in images:
        first, stop = max(image.start, start), min(image.end, end)
        if first >= stop:
            continue
        if start < first:
            yield PromptSegment(start, first, None)
        yield PromptSegment(first, stop, image)
        start = stop
    if start < end:
        yield PromptSegment(start, end, None)


def shift_at(images: Sequence[ProcessedImage], index: int) -> int:
    """Return position minus index of the text token at `index`."""
    return sum(image.num_positions - image.num_tokens for image in images if image.start < index)


def three_axis_positions(
    images: Sequence[ProcessedImage], start: int, end: int, *, cell_size: int
) -> Positions:
    """Return the positions of a pass, (3, tokens) int32."""
    positions: Positions = np.tile(np.arange(start, end, dtype=np.int32), (3, 1))
    for segment in prompt_segments(images, start, end):
        columns = slice(segment.start - start, segment.end - start)
        image = segment.image
        if image is None or image.is_audio:
            positions[:, columns] += shift_at(images, segment.start)
        else:
            cells: Positions = np.arange(segment.start, segment.end, dtype=np.int32) - image.start
            row, column = np.divmod(cells, image.width // cell_size)
            positions[:, columns] = image.start + shift_at(images, image.start)
            positions[0, columns] += image.time
            positions[1, columns] += row
            positions[2, columns] += column
    return positions
