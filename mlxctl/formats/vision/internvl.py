"""InternVL: tiles in the image's proportions, and the whole image."""

from collections.abc import Sequence
from typing import Any

from mlxctl.formats.vision.family import (
    BICUBIC,
    ClipFormat,
    ImageCut,
    UnclearError,
    VisionFamily,
    VisionFiles,
    colors,
    image_token_id,
    whole,
)
from mlxctl.formats.vision.tiles import on_closest_grid, split_in_tiles
from mlxctl.ir import Clip, VisionRecipe

_IMAGENET_COLORS = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
_MOST_TILES = 12
_MAX_FRAMES = 32


def _recipe(files: VisionFiles) -> VisionRecipe:
    vision = {name: value[0] if isinstance(value, list) else value for name, value in files.vision.items()}
    patch_size = whole(vision, "patch_size", usual=14)
    ratio = files.config.get("downsample_ratio", 0.5)
    if not isinstance(ratio, int | float) or not 0 < ratio <= 1:
        raise UnclearError(f"downsample_ratio is {ratio!r}, not a share")
    side = whole(files.config, "force_image_size", usual=whole(vision, "image_size", usual=448))
    return VisionRecipe(
        family="internvl",
        image_token_id=image_token_id(files, "<IMG_CONTEXT>"),
        cell_size=int(patch_size / ratio),
        sizes={
            "side": side,
            "num_cells": int((side // patch_size) ** 2 * ratio**2),
            "fewest": whole(files.config, "min_dynamic_patch", usual=1),
            "most": whole(files.config, "max_dynamic_patch", usual=_MOST_TILES),
            "use_thumbnail": int(bool(files.config.get("use_thumbnail", True))),
        },
        **colors(files, _IMAGENET_COLORS, BICUBIC),
    )


def _cut(image: Any, recipe: VisionRecipe) -> ImageCut:
    sizes, side = recipe.sizes, recipe.sizes["side"]
    large = on_closest_grid(
        image, side=side, fewest=sizes["fewest"], most=sizes["most"], resample=recipe.resample
    )
    tiles = split_in_tiles(large, side)
    if sizes["use_thumbnail"] and len(tiles) > 1:
        tiles.append(image.resize((side, side), resample=recipe.resample))
    return ImageCut(layout=[len(tiles) * sizes["num_cells"]], tiles=tiles)


def _write_clip(clip: Clip, _: VisionRecipe) -> str:
    return "".join(f"Frame{number}: {{}}\n" for number in range(1, len(clip.seconds) + 1))


def _cut_clip(clip: Clip, recipe: VisionRecipe) -> Sequence[ImageCut]:
    side = recipe.sizes["side"]
    return [
        ImageCut(
            layout=[recipe.sizes["num_cells"]],
            tiles=[picture.resize((side, side), resample=recipe.resample)],
        )
        for picture in clip.pictures
    ]


FAMILY = VisionFamily(
    name="internvl",
    model_types=("internvl", "internvl_chat"),
    recipe=_recipe,
    cut=_cut,
    shown="{}\n",
    read="<img>{}</img>\n",
    tokens=("<img>", "</img>"),
    clips=ClipFormat(write=_write_clip, cut=_cut_clip, max_frames=_MAX_FRAMES),
)
