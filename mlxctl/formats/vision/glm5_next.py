"""GLM-5.3: the image in the corner of a grid of cells."""

import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from mlxctl.formats.vision.family import (
    BICUBIC,
    CLIP_COLORS,
    ClipFormat,
    ImageCut,
    VisionFamily,
    VisionFiles,
    colors,
    image_token_id,
    whole,
)
from mlxctl.ir import Clip, VisionRecipe

_FEWEST_CELLS, _MOST_CELLS, _MOST_CLIP_CELLS = 16, 8000, 240_000
_START, _END = "<|begin_of_image|>", "<|end_of_image|>"
_CLIP_START, _CLIP_END = "<|begin_of_video|>", "<|end_of_video|>"


def _recipe(files: VisionFiles) -> VisionRecipe:
    images, videos = files.image_processor, files.video_processor
    most_of_clip = _MOST_CLIP_CELLS if videos is images else whole(
        videos, "max_image_tokens", usual=_MOST_CLIP_CELLS
    )  # fmt: skip
    return VisionRecipe(
        family="glm5_next",
        image_token_id=image_token_id(files),
        cell_size=whole(files.vision, "patch_size", usual=14)
        * whole(files.vision, "spatial_merge_size", usual=2),
        sizes={
            "min_image_tokens": whole(images, "min_image_tokens", usual=_FEWEST_CELLS),
            "max_image_tokens": whole(images, "max_image_tokens", usual=_MOST_CELLS),
            "max_clip_tokens": most_of_clip,
            "temporal_patch_size": whole(files.vision, "temporal_patch_size", usual=2),
        },
        **colors(files, CLIP_COLORS, BICUBIC),
    )


def _cut(image: Any, recipe: VisionRecipe) -> ImageCut:
    # An image is a video of equal frames.
    num_frames, most = recipe.sizes["temporal_patch_size"], recipe.sizes["max_image_tokens"]
    (tile,) = _on_grids([image], recipe, num_frames=num_frames, most=most)
    return ImageCut(layout=[_num_cells(tile, recipe)], tiles=[tile])


def _write_clip(clip: Clip, recipe: VisionRecipe) -> str:
    starts = clip.seconds[:: recipe.sizes["temporal_patch_size"]]
    groups = "".join(f"{_START}{{}}{_END}{start:.1f} seconds" for start in starts)
    return f"{_CLIP_START}{groups}{_CLIP_END}"


def _cut_clip(clip: Clip, recipe: VisionRecipe) -> Sequence[ImageCut]:
    size, num_frames = recipe.sizes["temporal_patch_size"], len(clip.pictures)
    most = recipe.sizes["max_clip_tokens"]
    frames = _on_grids(clip.pictures, recipe, num_frames=num_frames, most=most)
    frames += frames[-1:] * (-num_frames % size)
    return [
        ImageCut(layout=[_num_cells(frames[at], recipe)], tiles=frames[at : at + size])
        for at in range(0, len(frames), size)
    ]


def _num_cells(tile: Any, recipe: VisionRecipe) -> int:
    num_cells: int = (tile.width // recipe.cell_size) * (tile.height // recipe.cell_size)
    return num_cells


def _on_grids(pictures: Sequence[Any], recipe: VisionRecipe, *, num_frames: int, most: int) -> list[Any]:
    """Return pictures of one size on black grids of whole cells.

    They are scaled down to `most` cells together, and up to the fewest. Each is `num_frames` divided by the
    frames of a cell.
    """
    from PIL import Image

    cell, depth = recipe.cell_size, recipe.sizes["temporal_patch_size"]
    fewest, (width, height) = recipe.sizes["min_image_tokens"], pictures[0].size
    groups = max(1, round(num_frames / depth))
    is_small = num_frames * height * width < fewest * depth * cell**2
    rows, columns = math.ceil(height / cell), math.ceil(width / cell)
    if groups * rows * columns < fewest:
        scale = math.sqrt(fewest * depth * cell**2 / (num_frames * height * width))
        rows, columns = (math.ceil(math.ceil(side * scale) / cell) for side in (height, width))
    if groups * rows * columns > most:
        wide = [max(1, width * high // height) for high in range(1, height + 1)]
        cells = [
            groups * math.ceil(high / cell) * math.ceil(side / cell)
            for high, side in enumerate(wide, start=1)
        ]
        # The tallest that fits; the number of cells grows with it.
        tallest = bisect_right(cells, most)
        rows, columns = (
            (math.ceil(tallest / cell), math.ceil(wide[tallest - 1] / cell)) if tallest else (1, 1)
        )
    scale = min(rows * cell / height, columns * cell / width)
    scale = scale if is_small else min(1.0, scale)
    size = (
        max(1, min(columns * cell, math.floor(width * scale))),
        max(1, min(rows * cell, math.floor(height * scale))),
    )
    grids = []
    for picture in pictures:
        grids.append(Image.new("RGB", (columns * cell, rows * cell)))
        grids[-1].paste(picture.resize(size, resample=recipe.resample))
    return grids


FAMILY = VisionFamily(
    name="glm5_next",
    model_types=("glm5_next",),
    recipe=_recipe,
    cut=_cut,
    shown=f"{_START}{{}}{_END}",
    read=f"{_START}{{}}{_END}",
    tokens=(_START, _END),
    clips=ClipFormat(write=_write_clip, cut=_cut_clip, tokens=(_CLIP_START, _CLIP_END)),
)
