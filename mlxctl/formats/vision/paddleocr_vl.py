"""PaddleOCR-VL: a grid of cells with positions on three axes."""

from typing import Any

from mlxctl.formats.vision.family import (
    BICUBIC,
    EVEN_COLORS,
    ImageCut,
    VisionFamily,
    VisionFiles,
    colors,
    image_token_id,
    whole,
)
from mlxctl.formats.vision.qwen_vl import between_areas, pixel_limits, runs_of_axes
from mlxctl.ir import VisionRecipe

_FEWEST_PIXELS, _MOST_PIXELS = 147_384, 2_822_400
_START, _END = "<|IMAGE_START|>", "<|IMAGE_END|>"


def _recipe(files: VisionFiles) -> VisionRecipe:
    return VisionRecipe(
        family="paddleocr_vl",
        image_token_id=image_token_id(files),
        cell_size=whole(files.vision, "patch_size", usual=14)
        * whole(files.vision, "spatial_merge_size", usual=2),
        sizes=pixel_limits(files, fewest=_FEWEST_PIXELS, most=_MOST_PIXELS),
        axes=runs_of_axes(files),
        **colors(files, EVEN_COLORS, BICUBIC),
    )


def _cut(image: Any, recipe: VisionRecipe) -> ImageCut:
    cell, height, width = recipe.cell_size, image.height, image.width
    if height < cell:
        height, width = cell, round(width * cell / height)
    if width < cell:
        height, width = round(height * cell / width), cell
    height, width = between_areas(recipe, height=height, width=width)
    rows, columns = height // cell, width // cell
    return ImageCut(
        layout=[rows * columns],
        tiles=[image.resize((width, height), resample=recipe.resample)],
        num_positions=max(rows, columns),
    )


FAMILY = VisionFamily(
    name="paddleocr_vl",
    model_types=("paddleocr_vl",),
    recipe=_recipe,
    cut=_cut,
    shown=f"{_START}{{}}{_END}",
    read=f"{_START}{{}}{_END}",
    tokens=(_START, _END),
)
