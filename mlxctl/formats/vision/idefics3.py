"""Idefics 3 and SmolVLM: tiles, row by row, and the whole image."""

import math
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from mlxctl.formats.vision.family import (
    EVEN_COLORS,
    ClipFormat,
    ImageCut,
    VisionFamily,
    VisionFiles,
    colors,
    image_token_id,
    minutes,
    whole,
)
from mlxctl.formats.vision.tiles import split_in_tiles
from mlxctl.ir import Clip, VisionRecipe

_LANCZOS = 1
_SIDE = 364
_MAX_FRAMES = 64
# Sides are cut to this, whatever the size of tiles.
_MAX_SIDE = 4096
_FRAME, _WHOLE = "<fake_token_around_image>", "<global-img>"


def _recipe(files: VisionFiles) -> VisionRecipe:
    tile = files.image_processor.get("max_image_size")
    side = whole(tile if isinstance(tile, Mapping) else {}, "longest_edge", usual=_SIDE)
    cell_size = whole(files.vision, "patch_size", usual=14) * whole(files.config, "scale_factor", usual=2)
    return VisionRecipe(
        family="idefics3",
        image_token_id=image_token_id(files),
        cell_size=cell_size,
        sizes={
            "longest_edge": whole(files.size, "longest_edge", usual=4 * side),
            "side": side,
            "splits": int(bool(files.image_processor.get("do_image_splitting", True))),
        },
        **colors(files, EVEN_COLORS, _LANCZOS),
    )


def _cut(image: Any, recipe: VisionRecipe, *, may_split: bool = True) -> ImageCut:
    side, splits = recipe.sizes["side"], may_split and recipe.sizes["splits"]
    num_cells = (side // recipe.cell_size) ** 2
    image = image.resize(_longest_edge(image, recipe.sizes["longest_edge"]), resample=recipe.resample)
    if splits:
        image = image.resize(_whole_tiles(image, side), resample=recipe.resample)
    small = image.resize((side, side), resample=recipe.resample)
    columns, rows = image.width // side, image.height // side
    if not splits or columns * rows == 1:
        return ImageCut(layout=[_FRAME + _WHOLE, num_cells, _FRAME], tiles=[small])
    layout: list[int | str] = []
    for row in range(rows):
        for column in range(columns):
            layout += [f"{_FRAME}<row_{row + 1}_col_{column + 1}>", num_cells]
        layout.append("\n" if row + 1 < rows else f"\n\n{_FRAME}{_WHOLE}")
    return ImageCut(layout=[*layout, num_cells, _FRAME], tiles=[*split_in_tiles(image, side), small])


def _write_clip(clip: Clip, _: VisionRecipe) -> str:
    length = timedelta(seconds=int(clip.duration))
    frames = "".join(f"\nFrame from {minutes(seconds)}:{{}}" for seconds in clip.seconds)
    return (
        f"You are provided the following series of {len(clip.seconds)} frames from a {length} [H:MM:SS] "
        f"video.\n{frames}\n\n"
    )


def _cut_clip(clip: Clip, recipe: VisionRecipe) -> Sequence[ImageCut]:
    return [_cut(picture, recipe, may_split=False) for picture in clip.pictures]


def _longest_edge(image: Any, edge: int) -> tuple[int, int]:
    """Return the width and height with this longest side.

    The other one is even.
    """
    ratio = image.width / image.height
    if image.width >= image.height:
        width, height = edge, int(edge / ratio)
        height = max(height + height % 2, 1)
    else:
        width, height = int(edge * ratio), edge
        width = max(width + width % 2, 1)
    ratio = width / height
    if max(width, height) <= _MAX_SIDE:
        return width, height
    return (
        (_MAX_SIDE, max(int(_MAX_SIDE / ratio), 1))
        if width >= height
        else (max(int(_MAX_SIDE * ratio), 1), _MAX_SIDE)
    )


def _whole_tiles(image: Any, side: int) -> tuple[int, int]:
    """Return the width and height, rounded up to whole tiles."""
    ratio = image.width / image.height
    if image.width >= image.height:
        width = math.ceil(image.width / side) * side
        return width, math.ceil(int(width / ratio) / side) * side
    height = math.ceil(image.height / side) * side
    return math.ceil(int(height * ratio) / side) * side, height


FAMILY = VisionFamily(
    name="idefics3",
    model_types=("idefics3", "smolvlm"),
    recipe=_recipe,
    cut=_cut,
    tokens=(_FRAME, _WHOLE),
    # Its template writes no space before an image, as before a text.
    rewritten=(("User: {}", "User:{}"),),
    clips=ClipFormat(write=_write_clip, cut=_cut_clip, max_frames=_MAX_FRAMES),
)
