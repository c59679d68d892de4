"""Pixtral and Mistral 3: rows of cells, each with an end token."""

from typing import Any

from mlxctl.formats.vision.family import (
    BICUBIC,
    CLIP_COLORS,
    ImageCut,
    VisionFamily,
    VisionFiles,
    colors,
    image_token_id,
    whole,
)
from mlxctl.ir import VisionRecipe

_LONGEST_EDGE = 1024
_ROW_END, _END = "[IMG_BREAK]", "[IMG_END]"


def _recipe(files: VisionFiles) -> VisionRecipe:
    return VisionRecipe(
        family="pixtral",
        image_token_id=image_token_id(files),
        cell_size=whole(files.vision, "patch_size") * whole(files.config, "spatial_merge_size", usual=1),
        sizes={"longest_edge": whole(files.size, "longest_edge", usual=_LONGEST_EDGE)},
        **colors(files, CLIP_COLORS, BICUBIC),
    )


def _cut(image: Any, recipe: VisionRecipe) -> ImageCut:
    """Limit the sides to the longest edge; round up to cells."""
    cell, height, width = recipe.cell_size, image.height, image.width
    ratio = max(height, width) / recipe.sizes["longest_edge"]
    if ratio > 1:
        height, width = int(height / ratio), int(width / ratio)
    rows, columns = max(height - 1, 0) // cell + 1, max(width - 1, 0) // cell + 1
    return ImageCut(
        layout=[columns, _ROW_END] * (rows - 1) + [columns, _END],
        tiles=[image.resize((columns * cell, rows * cell), resample=recipe.resample)],
    )


FAMILY = VisionFamily(
    name="pixtral",
    model_types=("mistral3", "pixtral"),
    recipe=_recipe,
    cut=_cut,
    tokens=(_ROW_END, _END),
)
