"""dots.ocr: a grid of cells."""

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
from mlxctl.formats.vision.qwen_vl import between_areas, pixel_limits
from mlxctl.ir import VisionRecipe

_START, _END = "<|img|>", "<|endofimg|>"


def _recipe(files: VisionFiles) -> VisionRecipe:
    return VisionRecipe(
        family="dots_ocr",
        image_token_id=image_token_id(files),
        cell_size=whole(files.vision, "patch_size", usual=14)
        * whole(files.vision, "spatial_merge_size", usual=2),
        sizes=pixel_limits(files),
        **colors(files, CLIP_COLORS, BICUBIC),
    )


def _cut(image: Any, recipe: VisionRecipe) -> ImageCut:
    height, width = between_areas(recipe, height=image.height, width=image.width)
    return ImageCut(
        layout=[height // recipe.cell_size * (width // recipe.cell_size)],
        tiles=[image.resize((width, height), resample=recipe.resample)],
    )


FAMILY = VisionFamily(
    name="dots_ocr",
    model_types=("dots_ocr",),
    recipe=_recipe,
    cut=_cut,
    shown=f"{_START}{{}}{_END}",
    read=f"{_START}{{}}{_END}",
    tokens=(_START, _END),
)
