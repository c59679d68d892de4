"""Gemma 3: a square with a fixed number of tokens."""

from math import isqrt
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

_NUM_TOKENS = 256


def _recipe(files: VisionFiles) -> VisionRecipe:
    side = whole(files.vision, "image_size")
    num_tokens = whole(files.config, "mm_tokens_per_image", usual=_NUM_TOKENS)
    num_cells = isqrt(num_tokens)
    if num_cells**2 != num_tokens or side % num_cells:
        raise UnclearError(f"a square of {side} pixels cannot be divided into {num_tokens} cells")
    return VisionRecipe(
        family="gemma3",
        image_token_id=image_token_id(files),
        cell_size=side // num_cells,
        sizes={"side": side},
        **colors(files, EVEN_COLORS, BILINEAR),
    )


def _cut(image: Any, recipe: VisionRecipe) -> ImageCut:
    side = recipe.sizes["side"]
    return ImageCut(
        layout=[(side // recipe.cell_size) ** 2],
        tiles=[image.resize((side, side), resample=recipe.resample)],
        is_whole=True,
    )


# Its template trims messages, so the empty lines around an image are added later, as in its own processor.
FAMILY = VisionFamily(
    name="gemma3",
    model_types=("gemma3",),
    recipe=_recipe,
    cut=_cut,
    shown="<start_of_image>",
    read="\n\n<start_of_image>{}<end_of_image>\n\n",
    tokens=("<start_of_image>", "<end_of_image>"),
)
