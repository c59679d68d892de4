"""Step 3.7: windows of a large image by row, and the whole."""

from typing import Any

from mlxctl.formats.vision.family import (
    BILINEAR,
    CLIP_COLORS,
    ImageCut,
    VisionFamily,
    VisionFiles,
    colors,
    image_token_id,
)
from mlxctl.formats.vision.tiles import split_in_tiles
from mlxctl.ir import VisionRecipe

# Those of mlx-vlm's processor, which reads no sizes of the model's files.
_SIDE, _WINDOW, _LONGEST_EDGE = 728, 504, 3024
_CELLS, _WINDOW_CELLS = 169, 81
# A window is added for a rest of this share of one.
_MIN_REST = 0.2
_START, _END = "<im_start>", "<im_end>"
_WINDOW_START, _WINDOW_END, _ROW_END = "<patch_start>", "<patch_end>", "<patch_newline>"


def _recipe(files: VisionFiles) -> VisionRecipe:
    return VisionRecipe(
        family="step3p7",
        image_token_id=image_token_id(files, "<im_patch>"),
        cell_size=_SIDE // 13,
        sizes={"side": _SIDE, "window": _WINDOW},
        **colors(files, CLIP_COLORS, BILINEAR),
    )


def _cut(image: Any, recipe: VisionRecipe) -> ImageCut:
    from PIL import Image

    square = Image.new("RGB", (max(image.size),) * 2)
    square.paste(image)
    side = min(square.width, _LONGEST_EDGE)
    square = square.resize((side, side), resample=recipe.resample)
    whole_image = square.resize((_SIDE, _SIDE), resample=recipe.resample)
    layout: list[int | str] = []
    windows: list[Any] = []
    if side > _SIDE:
        number, rest = divmod(side, _WINDOW)
        number += rest > _MIN_REST * _WINDOW
        large = square.resize((number * _WINDOW,) * 2, resample=recipe.resample)
        windows = split_in_tiles(large, _WINDOW)
        for row in range(number):
            layout += [_WINDOW_START, _WINDOW_CELLS, _WINDOW_END] * number
            layout += [_ROW_END] if row + 1 < number else []
    return ImageCut(layout=[*layout, _START, _CELLS, _END], tiles=[*windows, whole_image])


FAMILY = VisionFamily(
    name="step3p7",
    model_types=("step3p7",),
    recipe=_recipe,
    cut=_cut,
    tokens=(_START, _END, _WINDOW_START, _WINDOW_END, _ROW_END),
)
