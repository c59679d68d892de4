"""Kimi-VL: whole cells of an image in its own size."""

import math
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
from mlxctl.ir.errors import InvalidRequest

_MAX_PATCHES = 4096
# The tower has positions for as many patches a side.
_MAX_PATCHES_A_SIDE = 512


def _recipe(files: VisionFiles) -> VisionRecipe:
    patch_size = whole(files.vision, "patch_size", usual=14)
    merged = files.vision.get("merge_kernel_size")
    return VisionRecipe(
        family="kimi_vl",
        image_token_id=image_token_id(files),
        cell_size=patch_size * (merged[0] if isinstance(merged, list) else 2),
        sizes={
            "patch_size": patch_size,
            "in_token_limit": whole(files.image_processor, "in_token_limit", usual=_MAX_PATCHES),
            "pad_input": int(bool(files.image_processor.get("pad_input"))),
        },
        **colors(files, CLIP_COLORS, BICUBIC),
    )


def _cut(image: Any, recipe: VisionRecipe) -> ImageCut:
    patch, cell, most = recipe.sizes["patch_size"], recipe.cell_size, recipe.sizes["in_token_limit"]
    width, height = image.size
    num_patches = (width // patch) * (height // patch)
    if num_patches > most:
        scale = math.sqrt(most / num_patches)
        image = image.resize((int(width * scale), int(height * scale)), resample=recipe.resample)
        width, height = image.size
    if recipe.sizes["pad_input"]:
        left, top, right, bottom = 0, 0, width + -width % cell, height + -height % cell
    else:
        left, top = width % cell // 2, height % cell // 2
        right, bottom = left + width // cell * cell, top + height // cell * cell
    if not (left < right and top < bottom) or max(right - left, bottom - top) // patch >= _MAX_PATCHES_A_SIDE:
        raise InvalidRequest(
            f"an image of {width} x {height} pixels is too long or too small for this model", param="messages"
        )
    tile = image.crop((left, top, right, bottom))
    return ImageCut(layout=[tile.width // cell * (tile.height // cell)], tiles=[tile])


FAMILY = VisionFamily(
    name="kimi_vl",
    model_types=("kimi_vl",),
    recipe=_recipe,
    cut=_cut,
    shown="<|media_start|>image<|media_content|>{}<|media_end|>",
    read="<|media_start|>image<|media_content|>{}<|media_end|>",
    tokens=("<|media_start|>", "<|media_content|>", "<|media_end|>"),
)
