"""Large images as grids of tiles."""

import math
from typing import Any


def on_closest_grid(image: Any, *, side: int, fewest: int, most: int, resample: int) -> Any:
    """Return the image, resized to whole square tiles.

    They are `fewest` to `most`, on the grid that is closest to the image's proportions. Of two that are
    equally close, the larger one is chosen if it has less than twice the pixels of the image.
    """
    numbers, area = range(1, most + 1), image.width * image.height
    grids = [(columns, rows) for columns in numbers for rows in numbers if fewest <= columns * rows <= most]
    (columns, rows), least = (1, 1), math.inf
    for grid in sorted(grids, key=lambda grid: grid[0] * grid[1]):
        distance = abs(image.width / image.height - grid[0] / grid[1])
        is_as_close = distance == least and area > 0.5 * side**2 * grid[0] * grid[1]
        if distance < least or is_as_close:
            (columns, rows), least = grid, distance
    return image.resize((columns * side, rows * side), resample=resample)


def split_in_tiles(image: Any, side: int) -> list[Any]:
    """Return the tiles of an image of whole tiles, row by row."""
    return split_in_grid(image, columns=image.width // side, rows=image.height // side)


def split_in_grid(image: Any, *, columns: int, rows: int) -> list[Any]:
    """Return the tiles of an image of whole tiles, row by row."""
    width, height = image.width // columns, image.height // rows
    return [
        image.crop((column * width, row * height, (column + 1) * width, (row + 1) * height))
        for row in range(rows)
        for column in range(columns)
    ]
