"""The size in pixels that a image is brought to before a model sees it, by the formulas of the models'
processors. Pure.
"""

import math

from mlxctl.errors import InvalidRequest
from mlxctl.ir import VisionRecipe

# What Qwen's processor refuses: such a line would become a row of cells without end.
_MAX_RATIO = 200


def fitting_size(recipe: VisionRecipe, *, height: int, width: int) -> tuple[int, int]:
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
