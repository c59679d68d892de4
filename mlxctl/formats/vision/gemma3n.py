"""Gemma 3n: a square with a fixed number of tokens."""

from typing import Any

from mlxctl.formats.vision.family import (
    BILINEAR,
    EVEN_COLORS,
    ImageCut,
    VisionFamily,
    VisionFiles,
    colors,
    image_token_id,
    whole,
)
from mlxctl.ir import VisionRecipe

_SIDE, _NUM_TOKENS = 768, 256


def _recipe(files: VisionFiles) -> VisionRecipe:
    side = whole(files.size, "height", usual=_SIDE)
    return VisionRecipe(
        family="gemma3n",
        image_token_id=image_token_id(files),
        cell_size=side // 16,
        sizes={
            "side": side,
            "num_tokens": whole(files.config, "vision_soft_tokens_per_image", usual=_NUM_TOKENS),
        },
        **colors(files, EVEN_COLORS, BILINEAR),
    )


def _cut(image: Any, recipe: VisionRecipe) -> ImageCut:
    size = (recipe.sizes["side"],) * 2
    # The embedding of its last token is in the vision part, so it belongs to the image.
    return ImageCut(
        layout=[recipe.sizes["num_tokens"], "<end_of_image>"],
        tiles=[image.resize(size, resample=recipe.resample)],
    )


# Its template trims messages, so the empty lines around an image are added later, as in its own processor.
FAMILY = VisionFamily(
    name="gemma3n",
    model_types=("gemma3n",),
    recipe=_recipe,
    cut=_cut,
    read="\n\n<start_of_image>{}\n\n",
    tokens=("<start_of_image>", "<end_of_image>"),
)
