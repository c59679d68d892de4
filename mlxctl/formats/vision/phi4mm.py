"""Phi-4 multimodal: whole patches of the image in its proportions."""

import math
from collections.abc import Collection
from typing import Any

from mlxctl.formats.vision.family import (
    BILINEAR,
    EVEN_COLORS,
    ImageCut,
    UnclearError,
    VisionFamily,
    VisionFiles,
    colors,
    image_token_id,
    whole,
)
from mlxctl.ir import VisionRecipe

_PATCH_SIZE = 14
_FEWEST_PATCHES, _MOST_PATCHES = 256, 3600


def refuse_separate_adapters(tensor_names: Collection[str]) -> None:
    """Raise UnclearError for weights with an adapter for each kind of input.

    Such a model would need other weights for each, also for the text beside it.
    """
    if any(".lora_A." in name for name in tensor_names):
        raise UnclearError(
            "its LoRA adapters for images and audio are apart from its weights; a quantized conversion "
            "(mlx_vlm.convert -q) has them merged"
        )


def _recipe(files: VisionFiles) -> VisionRecipe:
    refuse_separate_adapters(files.tensor_names)
    return VisionRecipe(
        family="phi4mm",
        image_token_id=image_token_id(files, "<|endoftext10|>"),
        cell_size=whole(files.vision, "patch_size", usual=_PATCH_SIZE),
        # Those of mlx-vlm's processor, whose class has no crops of large images.
        sizes={
            "min_num_patches": whole(files.config, "min_num_patches", usual=_FEWEST_PATCHES),
            "max_num_patches": whole(files.config, "max_num_patches", usual=_MOST_PATCHES),
        },
        **colors(files, EVEN_COLORS, BILINEAR),
    )


def _cut(image: Any, recipe: VisionRecipe) -> ImageCut:
    cell, ratio = recipe.cell_size, image.width / image.height
    number = (image.height // cell) * (image.width // cell)
    number = min(max(number, recipe.sizes["min_num_patches"]), recipe.sizes["max_num_patches"])
    rows = int(math.sqrt(number / ratio))
    columns = int(rows * ratio)
    while rows * columns > number:
        rows, columns = (rows - 1, columns) if rows > columns else (rows, columns - 1)
    rows, columns = max(rows, 1), max(columns, 1)
    tile = image.resize((columns * cell, rows * cell), resample=recipe.resample)
    return ImageCut(layout=[rows * columns], tiles=[tile])


FAMILY = VisionFamily(name="phi4mm", model_types=("phi4mm",), recipe=_recipe, cut=_cut)
