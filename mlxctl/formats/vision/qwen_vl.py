"""Qwen2-VL and later: a grid of cells with positions on three axes."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from mlxctl.formats.vision.family import (
    BICUBIC,
    CLIP_COLORS,
    ClipFormat,
    ImageCut,
    UnclearError,
    VisionFamily,
    VisionFiles,
    colors,
    image_token_id,
    video_token_id,
    whole,
)
from mlxctl.ir import Clip, VisionRecipe
from mlxctl.ir.errors import InvalidRequest

_FEWEST_PIXELS, _MOST_PIXELS = 56 * 56, 28 * 28 * 1280
# Qwen's processor rejects longer images, too: a thin line would become very many cells.
_MAX_RATIO = 200
_FEWEST_VIDEO_PIXELS, _MOST_VIDEO_PIXELS = 128 * 32 * 32, 768 * 32 * 32
_START, _END = "<|vision_start|>", "<|vision_end|>"


def _recipe(files: VisionFiles) -> VisionRecipe:
    # Qwen2-VL's positions count groups, Qwen2.5-VL's seconds; later models read seconds as text.
    model_type = str(files.config.get("model_type"))
    speed = whole(files.vision, "tokens_per_second", usual=2) if model_type == "qwen2_5_vl" else 0
    return VisionRecipe(
        family="qwen_vl",
        image_token_id=image_token_id(files),
        cell_size=whole(files.vision, "patch_size") * whole(files.vision, "spatial_merge_size", usual=2),
        sizes=pixel_limits(files)
        | video_limits(files, fewest=_FEWEST_VIDEO_PIXELS, most=_MOST_VIDEO_PIXELS)
        | {"tokens_per_second": speed, "writes_seconds": int(not model_type.startswith("qwen2"))},
        video_token_id=video_token_id(files),
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


def video_limits(files: VisionFiles, *, fewest: int, most: int) -> dict[str, int]:
    """Return how many pixels all frames have, at least and at most.

    Also the number of frames in a group. Raises UnclearError. `fewest` and `most` are used where the files
    have no limits.
    """
    fewest = whole(files.video_size, "shortest_edge", usual=fewest)
    most = whole(files.video_size, "longest_edge", usual=most)
    return {
        "min_video_pixels": whole(files.video_processor, "min_pixels", usual=fewest),
        "max_video_pixels": whole(files.video_processor, "max_pixels", usual=most),
        "temporal_patch_size": whole(files.vision, "temporal_patch_size", usual=2),
    }


def _axes(files: VisionFiles) -> tuple[int, ...]:
    """Return the axis of each RoPE frequency.

    Since Qwen3 they are interleaved until a run ends.
    """
    if str(files.config.get("model_type")).startswith("qwen2"):
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


def frame_groups(clip: Clip, recipe: VisionRecipe) -> list[list[Any]]:
    """Return the resized frames in groups.

    The last group is filled up with its last frame. Raises InvalidRequest for frames that are too long.
    """
    size, number = recipe.sizes["temporal_patch_size"], len(clip.pictures)
    first = clip.pictures[0]
    height, width = between_areas(
        recipe,
        height=first.height,
        width=first.width,
        kind="video_pixels",
        num_frames=number,
        num_read=number + -number % size,
    )
    frames = [picture.resize((width, height), resample=recipe.resample) for picture in clip.pictures]
    frames += frames[-1:] * (-number % size)
    return [frames[start : start + size] for start in range(0, len(frames), size)]


def _write_clip(clip: Clip, recipe: VisionRecipe) -> str:
    size = recipe.sizes["temporal_patch_size"]
    if not recipe.sizes["writes_seconds"]:
        return f"{_START}{'{}' * -(-len(clip.seconds) // size)}{_END}"
    seconds = clip.seconds + clip.seconds[-1:] * (-len(clip.seconds) % size)
    middles = ((seconds[at] + seconds[at + size - 1]) / 2 for at in range(0, len(seconds), size))
    return "".join(f"<{middle:.1f} seconds>{_START}{{}}{_END}" for middle in middles)


def _cut_clip(clip: Clip, recipe: VisionRecipe) -> Sequence[ImageCut]:
    groups = frame_groups(clip, recipe)
    rows, columns = groups[0][0].height // recipe.cell_size, groups[0][0].width // recipe.cell_size
    times, lengths = [0] * len(groups), [max(rows, columns)] * len(groups)
    if not recipe.sizes["writes_seconds"]:
        speed, size = recipe.sizes["tokens_per_second"], recipe.sizes["temporal_patch_size"]
        step = speed * size * clip.duration / len(clip.pictures) if speed else 1
        times = [int(number * step) for number in range(len(groups))]
        # The next text follows all groups.
        lengths = [0] * (len(groups) - 1) + [max(rows, columns, times[-1] + 1)]
    return [
        ImageCut(layout=[rows * columns], tiles=group, num_positions=length, time=time)
        for group, length, time in zip(groups, lengths, times, strict=True)
    ]


def between_areas(
    recipe: VisionRecipe,
    *,
    height: int,
    width: int,
    kind: str = "pixels",
    num_frames: int = 1,
    num_read: int = 1,
) -> tuple[int, int]:
    """Round to whole cells, then scale into the model's range of pixels.

    `kind` is the name of that range. It holds for all `num_frames` together, which are filled up to
    `num_read`. Raises InvalidRequest for an image that is too long.
    """
    if max(height, width) > _MAX_RATIO * min(height, width):
        message = (
            f"an image of {width} x {height} pixels is too long for this model: "
            f"one side may be {_MAX_RATIO} times the other"
        )
        raise InvalidRequest(message, param="messages")
    cell, fewest, most = recipe.cell_size, recipe.sizes[f"min_{kind}"], recipe.sizes[f"max_{kind}"]
    rows, columns = round(height / cell), round(width / cell)
    if num_read * rows * columns * cell**2 > most:
        shrink = math.sqrt(num_frames * height * width / most)
        rows, columns = math.floor(height / shrink / cell), math.floor(width / shrink / cell)
    elif num_read * rows * columns * cell**2 < fewest:
        grow = math.sqrt(fewest / (num_frames * height * width))
        rows, columns = math.ceil(height * grow / cell), math.ceil(width * grow / cell)
    return max(1, rows) * cell, max(1, columns) * cell


FAMILY = VisionFamily(
    name="qwen_vl",
    model_types=(
        "qwen2_5_vl", "qwen2_vl", "qwen3_5", "qwen3_5_moe", "qwen3_omni_moe", "qwen3_vl", "qwen3_vl_moe",
        "qwen4_exp",
    ),
    recipe=_recipe,
    cut=_cut,
    shown=f"{_START}{{}}{_END}",
    read=f"{_START}{{}}{_END}",
    tokens=(_START, _END),
    clips=ClipFormat(write=_write_clip, cut=_cut_clip, has_own_cell=True),
)  # fmt: skip
