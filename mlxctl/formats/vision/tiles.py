"""Large images as grids of square tiles."""

import math
from collections.abc import Callable
from typing import Any


def split_in_tiles(image: Any, side: int) -> list[Any]:
    """Return the tiles of an image of whole tiles, row by row."""
    return [
        image.crop((left, top, left + side, top + side))
        for top in range(0, image.height, side)
        for left in range(0, image.width, side)
    ]


def closest_grid(
    image: Any, *, fewest: int, most: int, is_better: Callable[[int, int], bool]
) -> tuple[int, int]:
    """Return columns and rows of the grid closest to an image's proportions.

    It has `fewest` to `most` tiles. Of two that are equally close, `is_better(tiles, tiles of the best so
    far)` says whether the larger one is chosen.
    """
    numbers = range(1, most + 1)
    grids = {(columns, rows) for columns in numbers for rows in numbers if fewest <= columns * rows <= most}
    best, least = (1, 1), math.inf
    for columns, rows in sorted(grids, key=lambda grid: grid[0] * grid[1]):
        distance = abs(image.width / image.height - columns / rows)
        if distance < least or (distance == least and is_better(columns * rows, best[0] * best[1])):
            best, least = (columns, rows), distance
    return best
