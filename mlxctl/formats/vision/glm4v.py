"""GLM-4V and GLM-OCR: a grid of cells with positions on three axes."""

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
from mlxctl.formats.vision.qwen_vl import between_areas, frame_groups, runs_of_axes, video_limits
from mlxctl.ir import Clip, VisionRecipe

_FEWEST_PIXELS = 112 * 112
_MOST_PIXELS = {"glm_ocr": 14 * 14 * 2 * 2 * 2 * 6144}
_USUAL_MOST_PIXELS = 28 * 28 * 15_000
_MOST_VIDEO_PIXELS = 28 * 28 * 2 * 30_000
_START, _END = "<|begin_of_image|>", "<|end_of_image|>"
_CLIP_START, _CLIP_END = "<|begin_of_video|>", "<|end_of_video|>"


def _recipe(files: VisionFiles) -> VisionRecipe:
    most = _MOST_PIXELS.get(str(files.config.get("model_type")), _USUAL_MOST_PIXELS)
    # The processor's limits are for all frames of a patch: an image is a video of equal frames.
    num_frames = whole(files.image_processor, "temporal_patch_size", usual=2)
    return VisionRecipe(
        family="glm4v",
        image_token_id=image_token_id(files),
        cell_size=whole(files.vision, "patch_size") * whole(files.vision, "spatial_merge_size", usual=2),
        sizes={
            "min_pixels": -(-whole(files.size, "shortest_edge", usual=_FEWEST_PIXELS) // num_frames),
            "max_pixels": whole(files.size, "longest_edge", usual=most) // num_frames,
        }
        | video_limits(files, fewest=_FEWEST_PIXELS, most=_MOST_VIDEO_PIXELS),
        axes=runs_of_axes(files),
        **colors(files, CLIP_COLORS, BICUBIC),
    )


def _cut(image: Any, recipe: VisionRecipe) -> ImageCut:
    cell, height, width = recipe.cell_size, image.height, image.width
    if min(height, width) < cell:
        scale = max(cell / height, cell / width)
        height, width = int(height * scale), int(width * scale)
    height, width = between_areas(recipe, height=height, width=width)
    rows, columns = height // cell, width // cell
    return ImageCut(
        layout=[rows * columns],
        tiles=[image.resize((width, height), resample=recipe.resample)],
        num_positions=max(rows, columns),
    )


def _write_clip(clip: Clip, recipe: VisionRecipe) -> str:
    starts = clip.seconds[:: recipe.sizes["temporal_patch_size"]]
    return _CLIP_START + "".join(f"{_START}{{}}{_END}{int(start)}" for start in starts) + _CLIP_END


def _cut_clip(clip: Clip, recipe: VisionRecipe) -> Sequence[ImageCut]:
    groups = frame_groups(clip, recipe)
    rows, columns = groups[0][0].height // recipe.cell_size, groups[0][0].width // recipe.cell_size
    return [
        ImageCut(layout=[rows * columns], tiles=group, num_positions=max(rows, columns)) for group in groups
    ]


FAMILY = VisionFamily(
    name="glm4v",
    model_types=("glm4v", "glm4v_moe", "glm_ocr"),
    recipe=_recipe,
    cut=_cut,
    shown=f"{_START}{{}}{_END}",
    read=f"{_START}{{}}{_END}",
    tokens=(_START, _END),
    clips=ClipFormat(write=_write_clip, cut=_cut_clip, tokens=(_CLIP_START, _CLIP_END)),
)
