"""LFM2-VL: one picture, or tiles of a large one with a thumbnail."""

import itertools
import math
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
from mlxctl.formats.vision.tiles import on_closest_grid, split_in_tiles
from mlxctl.ir import VisionRecipe

# Larger images than this times the largest picture are cut into tiles.
_TOLERANCE = 2.0
_FEWEST_TILES, _MOST_TILES = 2, 10
_START, _END, _THUMBNAIL = "<|image_start|>", "<|image_end|>", "<|img_thumbnail|>"


def _recipe(files: VisionFiles) -> VisionRecipe:
    values = {**files.config, **files.image_processor}
    patch_size = whole(values, "encoder_patch_size", usual=16)
    cell_size = patch_size * whole(values, "downsample_factor", usual=2)
    most = whole(values, "max_image_tokens", usual=256)
    return VisionRecipe(
        family="lfm2_vl",
        image_token_id=image_token_id(files),
        cell_size=cell_size,
        sizes={
            "patch_size": patch_size,
            "min_image_tokens": whole(values, "min_image_tokens", usual=64),
            "max_image_tokens": most,
            "tile_size": whole(values, "tile_size", usual=512),
            "max_whole_pixels": int(most * cell_size**2 * (values.get("max_pixels_tolerance") or _TOLERANCE)),
        },
        **colors(files, EVEN_COLORS, BICUBIC),
    )


def _cut(image: Any, recipe: VisionRecipe) -> ImageCut:
    cell, side = recipe.cell_size, recipe.sizes["tile_size"]
    height, width = _whole_size(recipe, height=image.height, width=image.width)
    small = image.resize((width, height), resample=recipe.resample)
    num_cells = (height // cell) * (width // cell)
    if not _is_large(image, recipe):
        return ImageCut(layout=[_START, num_cells, _END], tiles=[small])
    large = on_closest_grid(
        image, side=side, fewest=_FEWEST_TILES, most=_MOST_TILES, resample=recipe.resample
    )
    columns, rows = large.width // side, large.height // side
    tiles = split_in_tiles(large, side)
    layout: list[int | str] = [_START]
    for row, column in itertools.product(range(rows), range(columns)):
        layout += [f"<|img_row_{row + 1}_col_{column + 1}|>", math.ceil(side / cell) ** 2]
    return ImageCut(layout=[*layout, _THUMBNAIL, num_cells, _END], tiles=[*tiles, small])


def _whole_size(recipe: VisionRecipe, *, height: int, width: int) -> tuple[int, int]:
    """Return the size of the whole picture, in its range of cells."""
    cell = recipe.cell_size
    rows, columns = max(1, round(height / cell)), max(1, round(width / cell))
    fewest, most = recipe.sizes["min_image_tokens"], recipe.sizes["max_image_tokens"]
    if rows * columns > most:
        shrink = math.sqrt(height * width / (most * cell**2))
        rows = max(1, math.floor(height / shrink / cell))
        columns = max(1, math.floor(width / shrink / cell))
    elif rows * columns < fewest:
        grow = math.sqrt(fewest * cell**2 / (height * width))
        rows, columns = math.ceil(height * grow / cell), math.ceil(width * grow / cell)
    return rows * cell, columns * cell


def _is_large(image: Any, recipe: VisionRecipe) -> bool:
    cell, patch = recipe.cell_size, recipe.sizes["patch_size"]
    height, width = (max(patch, round(side / cell) * cell) for side in (image.height, image.width))
    is_large: bool = height * width > recipe.sizes["max_whole_pixels"]
    return is_large


FAMILY = VisionFamily(
    name="lfm2_vl",
    model_types=("lfm2-vl", "lfm2_vl"),
    recipe=_recipe,
    cut=_cut,
    tokens=(_START, _END),
)
