"""All families of vision models, which the modules of this folder declare."""

from collections.abc import Mapping

from mlxctl.formats import vision
from mlxctl.formats.discovery import declared_in
from mlxctl.formats.vision.family import VisionFamily

VISION_FAMILIES: Mapping[str, VisionFamily] = {
    family.name: family for family in declared_in(vision, VisionFamily)
}
_BY_MODEL_TYPE = {
    model_type: family for family in VISION_FAMILIES.values() for model_type in family.model_types
}
VISION_MODEL_TYPES = tuple(sorted(_BY_MODEL_TYPE))
"""Values of `model_type` that can take images here."""


_WITHOUT_CELLS = "their tokenizers have no token for the cells of an image"
_REASONS: Mapping[str, str] = {
    "fastvlm": _WITHOUT_CELLS,
    "llava_qwen2": _WITHOUT_CELLS,
    "llama4": "mlx-vlm's processor leaves out the whole image after its tiles",
    "llava_next": "mlx-vlm's class reads other tokens than Transformers'",
    "mllama": "they read images by cross-attention, beside the tokens of a prompt",
    "molmo": "they add features of overlapping crops to the embeddings of tokens",
    "paligemma": "they attend to the whole prompt in both directions, so it has no prefix to reuse",
}
REFUSED: Mapping[str, str] = {
    model_type: f"images of {model_type} models are not supported: {reason}"
    for model_type, reason in _REASONS.items()
}
"""Values of `model_type` with images that are not read, with the reason."""


def vision_family_of(model_type: str) -> VisionFamily | None:
    """Return the family of an architecture.

    None for one that takes no images here.
    """
    return _BY_MODEL_TYPE.get(model_type)
