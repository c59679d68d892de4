"""Qwen2-VL and later: a grid of cells with positions on three axes."""

import math
from collections.abc import Mapping
from typing import Any

from mlxctl.formats.vision.family import (
    BICUBIC,
    CLIP_COLORS,
    ImageCut,
    UnclearError,
    VisionFamily,
    VisionFiles,
    colors,
    image_token_id,
    whole,
)
from mlxctl.ir import VisionRecipe
from mlxctl.ir.errors import InvalidRequest

_FEWEST_PIXELS, _MOST_PIXELS = 56 * 56, 28 * 28 * 1280
# Qwen's processor rejects longer images, too: a thin line would become very many cells.
_MAX_RATIO = 200
_START, _END = "<|vision_start|>", "<|vision_end|>"


def _recipe(files: VisionFiles) -> VisionRecipe:
    return VisionRecipe(
        family="qwen_vl",
        image_token_id=image_token_id(files),
        cell_size=whole(files.vision, "patch_size") * whole(files.vision, "spatial_merge_size", usual=2),
        sizes=pixel_limits(files),
        axes=_axes(files),
        **colors(files, CLIP_COLORS, BICUBIC),
    )


def pixel_limits(
    files: VisionFiles, *, fewest: int = _FEWEST_PIXELS, most: int = _MOST_PIXELS
) -> dict[str, int]:
    """Return how many pixels an image has, at least and at most.

    Raises UnclearError. `fewest` and `most` are used where the files have no limits.
    """
    fewest = whole(files.size, "shortest_edge", usual=fewest)
    most = whole(files.size, "longest_edge", usual=most)
    return {
        "min_pixels": whole(files.image_processor, "min_pixels", usual=fewest),
        "max_pixels": whole(files.image_processor, "max_pixels", usual=most),
    }


def _axes(files: VisionFiles) -> tuple[int, ...]:
    """Return the axis of each RoPE frequency.

    Since Qwen3 they are interleaved until a run ends.
    """
    if not str(files.config.get("model_type")).startswith("qwen3"):
        return runs_of_axes(files)
    sections = _mrope_sections(files)
    return tuple(index % 3 if index < 3 * sections[index % 3] else 0 for index in range(sum(sections)))


def runs_of_axes(files: VisionFiles) -> tuple[int, ...]:
    """Return the axis of each RoPE frequency, in three runs. Raises UnclearError."""
    return tuple(axis for axis, number in enumerate(_mrope_sections(files)) for _ in range(number))


def _mrope_sections(files: VisionFiles) -> list[int]:
    """Return how many RoPE frequencies follow each axis. Raises UnclearError."""
    rope = files.text.get("rope_scaling") or files.text.get("rope_parameters")
    sections = rope.get("mrope_section") if isinstance(rope, Mapping) else None
    if (
        not isinstance(sections, list)
        or len(sections) != 3
        or not all(isinstance(number, int) for number in sections)
    ):
        raise UnclearError(f"mrope_section is {sections!r}, not three sizes")
    return sections


def _cut(image: Any, recipe: VisionRecipe) -> ImageCut:
    height, width = between_areas(recipe, height=image.height, width=image.width)
    rows, columns = height // recipe.cell_size, width // recipe.cell_size
    return ImageCut(
        layout=[rows * columns],
        tiles=[image.resize((width, height), resample=recipe.resample)],
        num_positions=max(rows, columns),
    )


def between_areas(recipe: VisionRecipe, *, height: int, width: int) -> tuple[int, int]:
    """Round to whole cells, then scale into the model's range of pixels.

    Raises InvalidRequest for an image that is too long.
    """
    if max(height, width) > _MAX_RATIO * min(height, width):
        message = (
            f"an image of {width} x {height} pixels is too long for this model: "
            f"one side may be {_MAX_RATIO} times the other"
        )
        raise InvalidRequest(message, param="messages")
    cell, fewest, most = recipe.cell_size, recipe.sizes["min_pixels"], recipe.sizes["max_pixels"]
    rows, columns = round(height / cell), round(width / cell)
    if rows * columns * cell**2 > most:
        shrink = math.sqrt(height * width / most)
        rows, columns = math.floor(height / shrink / cell), math.floor(width / shrink / cell)
    elif rows * columns * cell**2 < fewest:
        grow = math.sqrt(fewest / (height * width))
        rows, columns = math.ceil(height * grow / cell), math.ceil(width * grow / cell)
    return max(1, rows) * cell, max(1, columns) * cell


FAMILY = VisionFamily(
    name="qwen_vl",
    model_types=(
        "qwen2_5_vl", "qwen2_vl", "qwen3_5", "qwen3_5_moe", "qwen3_omni_moe", "qwen3_vl", "qwen3_vl_moe"
    ),
    recipe=_recipe,
    cut=_cut,
    shown=f"{_START}{{}}{_END}",
    read=f"{_START}{{}}{_END}",
    tokens=(_START, _END),
)  # fmt: skip
