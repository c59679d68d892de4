"""DeepSeek-OCR: the image on a square, and tiles of a large one."""

from typing import Any

from mlxctl.formats.vision.family import (
    BICUBIC,
    EVEN_COLORS,
    ImageCut,
    VisionFamily,
    VisionFiles,
    colors,
    image_token_id,
)
from mlxctl.formats.vision.tiles import on_closest_grid
from mlxctl.ir import VisionRecipe

# Those of mlx-vlm's processor ("Gundam" mode), which reads no sizes of the model's files.
_SIDE, _TILE_SIDE = 1024, 640
_FEWEST_TILES, _MOST_TILES = 2, 9
_CELL = 64
_GRAY = 127


def _recipe(files: VisionFiles) -> VisionRecipe:
    return VisionRecipe(
        family="deepseekocr",
        image_token_id=image_token_id(files, "<image>"),
        cell_size=_CELL,
        sizes={"side": _SIDE, "tile_side": _TILE_SIDE},
        **colors(files, EVEN_COLORS, BICUBIC),
    )


def _cut(image: Any, recipe: VisionRecipe) -> ImageCut:
    """Cut the tiles, still in one picture, and the whole image.

    Each row of cells ends with a token.
    """
    from PIL import ImageOps

    side, tile_side = recipe.sizes["side"], recipe.sizes["tile_side"]
    cells, tile_cells = side // recipe.cell_size, tile_side // recipe.cell_size
    square = ImageOps.pad(image, (side, side), method=recipe.resample, color=(_GRAY,) * 3)
    num_tokens = cells * (cells + 1) + 1
    if max(image.size) <= tile_side:
        return ImageCut(layout=[num_tokens], tiles=[square])
    large = on_closest_grid(
        image, side=tile_side, fewest=_FEWEST_TILES, most=_MOST_TILES, resample=recipe.resample
    )
    columns, rows = large.width // tile_side, large.height // tile_side
    num_tokens += rows * tile_cells * (columns * tile_cells + 1)
    return ImageCut(layout=[num_tokens], tiles=[large, square])


FAMILY = VisionFamily(
    name="deepseekocr",
    model_types=("deepseekocr",),
    recipe=_recipe,
    cut=_cut,
    shown="{}\n",
    read="{}\n",
    max_images=1,
)
