"""MiniCPM-V 4.6: a numbered image, and slices of a large one."""

import math
from collections.abc import Sequence
from typing import Any

from mlxctl.formats.vision.family import (
    BICUBIC,
    EVEN_COLORS,
    ClipFormat,
    ImageCut,
    VisionFamily,
    VisionFiles,
    colors,
    image_token_id,
    video_token_id,
    whole,
)
from mlxctl.formats.vision.tiles import split_in_grid
from mlxctl.ir import Clip, VisionRecipe

_PATCH_SIZE, _SIDE, _MOST_SLICES = 14, 448, 9
# As many frames of a clip as its processor reads.
_MAX_FRAMES = 128
_START, _END, _SLICE_START, _SLICE_END = "<image>", "</image>", "<slice>", "</slice>"
_NUMBER_START, _NUMBER_END = "<image_id>", "</image_id>"


def _recipe(files: VisionFiles) -> VisionRecipe:
    images, videos = files.image_processor, files.video_processor
    mode = images.get("downsample_mode") or files.config.get("downsample_mode")
    patch_size = whole(images, "patch_size", usual=whole(files.vision, "patch_size", usual=_PATCH_SIZE))
    return VisionRecipe(
        family="minicpmv",
        image_token_id=image_token_id(files, "<|image_pad|>"),
        # Patches are merged twice, or once.
        cell_size=patch_size * (2 if mode == "4x" else 4),
        sizes={
            "patch_size": patch_size,
            "scale_resolution": whole(images, "scale_resolution", usual=_SIDE),
            "max_slice_nums": whole(images, "max_slice_nums", usual=_MOST_SLICES)
            if images.get("slice_mode", True)
            else 1,
            "max_frame_slice_nums": whole(videos, "max_slice_nums", usual=_MOST_SLICES)
            if videos.get("slice_mode", True)
            else 1,
            "use_image_id": int(bool(images.get("use_image_id", True))),
        },
        video_token_id=video_token_id(files),
        **colors(files, EVEN_COLORS, BICUBIC),
    )


def _cut(image: Any, recipe: VisionRecipe, most: str = "max_slice_nums") -> ImageCut:
    cell, filtering = recipe.cell_size, recipe.resample
    grid = _grid(image, side=recipe.sizes["scale_resolution"], most=recipe.sizes[most])
    width, height = _size(image.width, image.height, recipe, may_grow=grid is None)
    small = image.resize((width, height), resample=filtering)
    layout: list[int | str] = [_START, (width // cell) * (height // cell), _END]
    if grid is None:
        return ImageCut(layout=layout, tiles=[small])
    columns, rows = grid
    # Its processor rounds the sides to whole slices, then fits one of them.
    width = max(round(image.width / columns) * columns, columns) / columns
    height = max(round(image.height / rows) * rows, rows) / rows
    width, height = _size(width, height, recipe, may_grow=True)
    large = image.resize((width * columns, height * rows), resample=filtering)
    for row in range(rows):
        layout += [_SLICE_START, (width // cell) * (height // cell), _SLICE_END] * columns
        layout += ["\n"] if row + 1 < rows else []
    return ImageCut(layout=layout, tiles=[small, *split_in_grid(large, columns=columns, rows=rows)])


def _write_clip(clip: Clip, _: VisionRecipe) -> str:
    return "{}" * len(clip.seconds)


def _cut_clip(clip: Clip, recipe: VisionRecipe) -> Sequence[ImageCut]:
    return [_cut(picture, recipe, "max_frame_slice_nums") for picture in clip.pictures]


def _number(number: int, recipe: VisionRecipe) -> str:
    return f"{_NUMBER_START}{number}{_NUMBER_END}" if recipe.sizes["use_image_id"] else ""


def _size(width: float, height: float, recipe: VisionRecipe, *, may_grow: bool) -> tuple[int, int]:
    """Return the size of a picture in whole cells.

    Of a larger one, about the pixels of its square.
    """
    side, cell = recipe.sizes["scale_resolution"], recipe.cell_size
    if width * height > side**2 or may_grow:
        ratio = width / height
        height = int(side / math.sqrt(ratio))
        width = int(height * ratio)
    return max(round(width / cell) * cell, cell), max(round(height / cell) * cell, cell)


def _grid(image: Any, *, side: int, most: int) -> tuple[int, int] | None:
    """Return columns and rows of an image's slices.

    None for one that is not sliced. Of grids that are equally close to its proportions, the one with more
    rows.
    """
    number = min(math.ceil(image.width * image.height / side**2), most)
    if number <= 1:
        return None
    numbers = [each for each in (number - 1, number, number + 1) if 1 < each <= most]
    grids = [(each // rows, rows) for each in numbers for rows in range(1, each + 1) if each % rows == 0]
    ratio = math.log(image.width / image.height)
    return min(grids, key=lambda grid: (abs(ratio - math.log(grid[0] / grid[1])), -grid[1]), default=(1, 1))


FAMILY = VisionFamily(
    name="minicpmv",
    model_types=("minicpmv4_6",),
    recipe=_recipe,
    cut=_cut,
    tokens=(_START, _END, _SLICE_START, _SLICE_END, _NUMBER_START, _NUMBER_END),
    clips=ClipFormat(write=_write_clip, cut=_cut_clip, has_own_cell=True, max_frames=_MAX_FRAMES),
    number=_number,
)
