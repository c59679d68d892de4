"""Gemma 4: as many cells as fit, in the image's own proportions."""

import math
from typing import Any

from mlxctl.formats.vision.family import (
    BICUBIC,
    PLAIN_COLORS,
    ImageCut,
    VisionFamily,
    VisionFiles,
    colors,
    image_token_id,
    whole,
)
from mlxctl.ir import VisionRecipe
from mlxctl.ir.errors import InvalidRequest

_PATCH_SIZE, _PATCHES_A_SIDE, _MAX_CELLS = 16, 3, 280


def _recipe(files: VisionFiles) -> VisionRecipe:
    patch_size = whole(files.image_processor, "patch_size", usual=_PATCH_SIZE)
    patches = whole(files.image_processor, "pooling_kernel_size", usual=_PATCHES_A_SIDE)
    attends_both_ways = files.text.get("use_bidirectional_attention") == "vision"
    return VisionRecipe(
        family="gemma4",
        image_token_id=image_token_id(files),
        cell_size=patch_size * patches,
        sizes={
            "max_soft_tokens": whole(files.image_processor, "max_soft_tokens", usual=_MAX_CELLS),
            "is_whole": int(attends_both_ways),
        },
        **colors(files, PLAIN_COLORS, BICUBIC, normalizes=False),
    )


def _cut(image: Any, recipe: VisionRecipe) -> ImageCut:
    rows, columns = _grid(image, cell=recipe.cell_size, most=recipe.sizes["max_soft_tokens"])
    size = (columns * recipe.cell_size, rows * recipe.cell_size)
    return ImageCut(
        layout=[rows * columns],
        tiles=[image.resize(size, resample=recipe.resample)],
        is_whole=bool(recipe.sizes["is_whole"]),
    )


def _grid(image: Any, *, cell: int, most: int) -> tuple[int, int]:
    """Return rows and columns of cells: at most `most` together.

    Raises InvalidRequest for an image without a cell.
    """
    height, width = image.height, image.width
    factor = math.sqrt(most * cell**2 / (height * width))
    rows, columns = math.floor(factor * height / cell), math.floor(factor * width / cell)
    if not rows and not columns:
        raise InvalidRequest(f"an image of {width} x {height} pixels is less than a cell", param="messages")
    if not rows:
        return 1, min(width // height, most)
    if not columns:
        return min(height // width, most), 1
    return rows, columns


FAMILY = VisionFamily(
    name="gemma4",
    model_types=("gemma4",),
    recipe=_recipe,
    cut=_cut,
    read="<|image>{}<image|>",
    tokens=("<|image>", "<image|>"),
)
