"""Aya Vision: numbered tiles in the image's proportions, and the whole image."""

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

_SIDE, _MOST_TILES = 364, 12
_CELL, _START, _END = "<|IMG_PATCH|>", "<|START_OF_IMG|>", "<|END_OF_IMG|>"


def _recipe(files: VisionFiles) -> VisionRecipe:
    images = files.image_processor
    return VisionRecipe(
        family="aya_vision",
        image_token_id=image_token_id(files, _CELL),
        cell_size=whole(files.vision, "patch_size", usual=14)
        * whole(files.config, "downsample_factor", usual=2),
        sizes={
            "side": whole(files.size, "height", usual=whole(files.vision, "image_size", usual=_SIDE)),
            "fewest": whole(images, "min_patches", usual=1),
            "most": whole(images, "max_patches", usual=_MOST_TILES)
            if images.get("crop_to_patches", True)
            else 1,
        },
        **colors(files, EVEN_COLORS, BICUBIC),
    )


def _cut(image: Any, recipe: VisionRecipe) -> ImageCut:
    sizes, resample = recipe.sizes, recipe.resample
    side, num_cells = sizes["side"], (sizes["side"] // recipe.cell_size) ** 2
    large = on_closest_grid(image, side=side, fewest=sizes["fewest"], most=sizes["most"], resample=resample)
    tiles = split_in_tiles(large, side)
    if len(tiles) == 1:
        return ImageCut(layout=[f"{_START}TILE_GLOBAL", num_cells, _END], tiles=tiles)
    layout: list[int | str] = [_START]
    for number in range(1, len(tiles) + 1):
        layout += [f"TILE_{number}", num_cells]
    whole_image = image.resize((side, side), resample=resample)
    return ImageCut(layout=[*layout, "TILE_GLOBAL", num_cells, _END], tiles=[*tiles, whole_image])


FAMILY = VisionFamily(
    name="aya_vision",
    model_types=("aya_vision",),
    recipe=_recipe,
    cut=_cut,
    tokens=(_START, _END),
)
