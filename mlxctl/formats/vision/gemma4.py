"""Gemma 4, also unified: as many cells as fit the image's proportions."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mlxctl.formats.vision.family import (
    BICUBIC,
    PLAIN_COLORS,
    ClipFormat,
    ImageCut,
    VisionFamily,
    VisionFiles,
    colors,
    image_token_id,
    minutes,
    video_token_id,
    whole,
)
from mlxctl.ir import Clip, VisionRecipe
from mlxctl.ir.errors import InvalidRequest

_PATCH_SIZE, _PATCHES_A_SIDE, _MAX_CELLS = 16, 3, 280
_MAX_FRAMES, _MAX_FRAME_CELLS = 32, 70


def _recipe(files: VisionFiles) -> VisionRecipe:
    return _read(files, "gemma4", both_ways=files.text.get("use_bidirectional_attention"))


def _unified_recipe(files: VisionFiles) -> VisionRecipe:
    # Where their files do not say it, unified models attend in both directions.
    both_ways = files.text.get("use_bidirectional_attention", "vision")
    return _read(files, "gemma4_unified", both_ways=both_ways)


def _read(files: VisionFiles, family: str, *, both_ways: object) -> VisionRecipe:
    patch_size = whole(files.image_processor, "patch_size", usual=_PATCH_SIZE)
    patches = whole(files.image_processor, "pooling_kernel_size", usual=_PATCHES_A_SIDE)
    return VisionRecipe(
        family=family,
        image_token_id=image_token_id(files),
        cell_size=patch_size * patches,
        sizes={
            "max_soft_tokens": whole(files.image_processor, "max_soft_tokens", usual=_MAX_CELLS),
            "max_frame_tokens": whole(files.video_processor, "max_soft_tokens", usual=_MAX_FRAME_CELLS),
            "is_whole": int(both_ways == "vision"),
        },
        video_token_id=video_token_id(files),
        **colors(files, PLAIN_COLORS, BICUBIC, normalizes=False),
    )


def _cut(image: Any, recipe: VisionRecipe, most: str = "max_soft_tokens") -> ImageCut:
    rows, columns = _grid(image, cell=recipe.cell_size, most=recipe.sizes[most])
    size = (columns * recipe.cell_size, rows * recipe.cell_size)
    return ImageCut(
        layout=[rows * columns],
        tiles=[image.resize(size, resample=recipe.resample)],
        is_whole=bool(recipe.sizes["is_whole"]),
    )


def _write_clip(clip: Clip, _: VisionRecipe) -> str:
    return " ".join(f"{minutes(seconds)} <|image>{{}}<image|>" for seconds in clip.seconds)


def _cut_clip(clip: Clip, recipe: VisionRecipe) -> Sequence[ImageCut]:
    return [_cut(picture, recipe, "max_frame_tokens") for picture in clip.pictures]


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
    clips=ClipFormat(write=_write_clip, cut=_cut_clip, has_own_cell=True, max_frames=_MAX_FRAMES),
)
UNIFIED = replace(FAMILY, name="gemma4_unified", model_types=("gemma4_unified",), recipe=_unified_recipe)
