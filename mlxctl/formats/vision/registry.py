"""All families of vision models."""

from collections.abc import Mapping

from mlxctl.formats.vision import (
    dots_ocr,
    gemma3,
    gemma3n,
    gemma4,
    glm4v,
    idefics3,
    internvl,
    kimi_vl,
    lfm2_vl,
    paddleocr_vl,
    pixtral,
    qwen_vl,
)
from mlxctl.formats.vision.family import VisionFamily

_MODULES = (
    dots_ocr, gemma3, gemma3n, gemma4, glm4v, idefics3, internvl, kimi_vl, lfm2_vl, paddleocr_vl, pixtral,
    qwen_vl,
)  # fmt: skip
VISION_FAMILIES: Mapping[str, VisionFamily] = {module.FAMILY.name: module.FAMILY for module in _MODULES}
_BY_MODEL_TYPE = {
    model_type: family for family in VISION_FAMILIES.values() for model_type in family.model_types
}
VISION_MODEL_TYPES = tuple(sorted(_BY_MODEL_TYPE))
"""Values of `model_type` that can take images here."""


REFUSED: Mapping[str, str] = {
    "deepseekocr": "images of deepseekocr models are not supported: mlx-vlm's class takes one in a prompt",
    "minicpmv4_6": "images of minicpmv4_6 models are not supported: each needs its number in the prompt",
}
"""Values of `model_type` with images that are not read, with the reason."""


def vision_family_of(model_type: str) -> VisionFamily | None:
    """Return the family of an architecture.

    None for one that takes no images here.
    """
    return _BY_MODEL_TYPE.get(model_type)
