"""Pictures and numbers of tokens equal those of Transformers.

By its image processors, with the configuration that each of these writes, for sizes that reach the limits.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from PIL import Image

from mlxctl.formats.vision.family import ImageCut, VisionFiles
from mlxctl.formats.vision.registry import vision_family_of
from mlxctl.ir import VisionRecipe

Array = Any
SIZES = ((32, 32), (97, 64), (150, 150), (1, 40), (300, 41), (33, 200))


def merged(cut: ImageCut, recipe: VisionRecipe, processor: Any) -> Array:
    """Return patches cell by cell, as often as the frames of one."""
    (picture,), patch, side = normalized(cut, recipe), processor.patch_size, processor.merge_size
    rows, columns = picture.shape[0] // (patch * side), picture.shape[1] // (patch * side)
    cells = picture.reshape(rows, side, patch, columns, side, patch, 3).transpose(0, 3, 1, 4, 6, 2, 5)
    repeated = np.repeat(cells[:, :, :, :, :, None], processor.temporal_patch_size, axis=5)
    return repeated.reshape(rows * columns * side**2, -1)


def patches(cut: ImageCut, recipe: VisionRecipe, processor: Any) -> Array:
    """Return patches row by row."""
    (picture,), patch = normalized(cut, recipe), processor.patch_size
    rows, columns = picture.shape[0] // patch, picture.shape[1] // patch
    return picture.reshape(rows, patch, columns, patch, 3).transpose(0, 2, 1, 3, 4)


def flat_patches(cut: ImageCut, recipe: VisionRecipe, processor: Any) -> Array:
    """Return patches row by row, each as one row of numbers, padded."""
    rows = patches(cut, recipe, processor)
    flat = rows.reshape(rows.shape[0] * rows.shape[1], -1)
    padding = processor.max_soft_tokens * processor.pooling_kernel_size**2 - len(flat)
    return np.pad(flat, ((0, padding), (0, 0)))[None]


def colored_patches(cut: ImageCut, recipe: VisionRecipe, processor: Any) -> Array:
    """Return patches row by row, each by color."""
    rows = patches(cut, recipe, processor)
    return rows.transpose(0, 1, 4, 2, 3).reshape(-1, 3, processor.patch_size, processor.patch_size)


def packed(cut: ImageCut, recipe: VisionRecipe, processor: Any) -> Array:
    """Return the patches of all tiles side by side."""
    size = processor.patch_size
    rows = [
        patches(ImageCut(layout=(), tiles=[tile]), recipe, processor).transpose(4, 2, 0, 1, 3)
        for tile in cut.tiles
    ]
    return np.concatenate([row.reshape(3, size, -1) for row in rows], axis=-1)[None]


def tiles(cut: ImageCut, recipe: VisionRecipe, _: Any) -> Array:
    """Return square tiles."""
    return np.stack(normalized(cut, recipe)).transpose(0, 3, 1, 2)


def nested_tiles(cut: ImageCut, recipe: VisionRecipe, processor: Any) -> Array:
    """Return the square tiles of one image of a batch."""
    return tiles(cut, recipe, processor)[None]


def normalized(cut: ImageCut, recipe: VisionRecipe) -> list[Array]:
    mean, deviation = np.float32(recipe.mean), np.float32(recipe.deviation)
    return [(np.asarray(tile, dtype=np.float32) / 255 - mean) / deviation for tile in cut.tiles]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A class of Transformers, its values, and those of a model's configuration."""

    module: str
    name: str
    values: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    layout: Callable[[ImageCut, VisionRecipe, Any], Array] = merged


_QWEN = {"size": {"shortest_edge": 1024, "longest_edge": 16_384}, "patch_size": 8}
_MERGED = {"rope_scaling": {"mrope_section": [2, 3, 3]}, "vision_config": {"patch_size": 8}}
_TILED = {"size": {"longest_edge": 128}, "max_image_size": {"longest_edge": 32}}
_CROPPED = {"crop_to_patches": True, "size": {"height": 32, "width": 32}}

CASES = {
    "qwen2_vl": Case(module="qwen2_vl", name="Qwen2VLImageProcessorPil", values=_QWEN, config=_MERGED),
    "dots_ocr": Case(
        module="qwen2_vl",
        name="Qwen2VLImageProcessorPil",
        values=_QWEN | {"temporal_patch_size": 1},
        config=_MERGED,
    ),
    "glm4v": Case(module="glm4v", name="Glm4vImageProcessorPil", values=_QWEN, config=_MERGED),
    "glm4v_moe": Case(module="glm46v", name="Glm46VImageProcessorPil", values=_QWEN, config=_MERGED),
    "glm5_next": Case(
        module="glm5_next",
        name="Glm5NextImageProcessorPil",
        values={"patch_size": 8, "min_image_tokens": 4, "max_image_tokens": 40},
        config=_MERGED,
    ),
    "paddleocr_vl": Case(
        module="paddleocr_vl",
        name="PaddleOCRVLImageProcessorPil",
        values=_QWEN,
        config=_MERGED,
        layout=colored_patches,
    ),
    "pixtral": Case(
        module="pixtral",
        name="PixtralImageProcessorPil",
        values={"size": {"longest_edge": 128}},
        config={"vision_config": {"patch_size": 16}},
        layout=tiles,
    ),
    "idefics3": Case(
        module="idefics3",
        name="Idefics3ImageProcessorPil",
        values=_TILED,
        config={"vision_config": {"patch_size": 8}},
        layout=nested_tiles,
    ),
    "smolvlm": Case(
        module="smolvlm",
        name="SmolVLMImageProcessorPil",
        values=_TILED,
        config={"vision_config": {"patch_size": 8}},
        layout=nested_tiles,
    ),
    "gemma3": Case(
        module="gemma3",
        name="Gemma3ImageProcessorPil",
        values={"size": {"height": 64, "width": 64}},
        config={"vision_config": {"image_size": 64}, "mm_tokens_per_image": 16},
        layout=tiles,
    ),
    "gemma3n": Case(
        module="siglip",
        name="SiglipImageProcessorPil",
        values={"size": {"height": 64, "width": 64}, "resample": 2, "do_normalize": False},
        layout=tiles,
    ),
    "gemma4": Case(
        module="gemma4", name="Gemma4ImageProcessorPil", values={"max_soft_tokens": 70}, layout=flat_patches
    ),
    "internvl": Case(
        module="got_ocr2",
        name="GotOcr2ImageProcessorPil",
        values=_CROPPED,
        config={"vision_config": {"image_size": [32, 32], "patch_size": [8, 8]}},
        layout=tiles,
    ),
    "aya_vision": Case(
        module="got_ocr2",
        name="GotOcr2ImageProcessorPil",
        values=_CROPPED,
        config={"vision_config": {"image_size": 32, "patch_size": 8}},
        layout=tiles,
    ),
    "minicpmv4_6": Case(
        module="minicpmv4_6",
        name="MiniCPMV4_6ImageProcessorPil",
        values={"patch_size": 4, "scale_resolution": 64},
        layout=packed,
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model_type", CASES)
def test_pictures_and_tokens_equal_those_of_transformers(model_type: str) -> None:
    case = CASES[model_type]
    module = import_module(f"transformers.models.{case.module}.image_processing_pil_{case.module}")
    processor = getattr(module, case.name)(**case.values)
    config = {"model_type": model_type, "image_token_id": 1, "vision_config": {}, **case.config}
    written = json.loads(processor.to_json_string())
    files = VisionFiles(config, config, config["vision_config"], written, {}, {}, written)
    family = vision_family_of(model_type)
    assert family is not None
    recipe = family.recipe(files)
    for number, (width, height) in enumerate(SIZES):
        pixels = np.random.default_rng(number).integers(0, 256, (height, width, 3), dtype=np.uint8)
        image = Image.fromarray(pixels)
        theirs = processor([image], return_tensors="np")
        cut = family.cut(image, recipe)
        np.testing.assert_allclose(case.layout(cut, recipe, processor), theirs["pixel_values"], atol=1e-6)
        cells = sum(piece for piece in cut.layout if isinstance(piece, int))
        assert num_tokens(theirs, processor) in (cells, None)


def num_tokens(theirs: Any, processor: Any) -> int | None:
    """Return the number of an image's tokens, where its processor knows it."""
    if "image_grid_thw" in theirs:
        return int(np.prod(theirs["image_grid_thw"])) // processor.merge_size**2
    if "target_sizes" in theirs:
        return int(theirs["target_sizes"].prod(axis=-1).sum()) // 16
    return int(theirs["num_soft_tokens_per_image"][0]) if "num_soft_tokens_per_image" in theirs else None
