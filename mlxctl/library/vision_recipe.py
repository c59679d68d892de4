"""The image input of a model, or why it is unsupported.

Reads `config.json`, `processor_config.json`, `preprocessor_config.json` and `video_preprocessor_config.json`.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlxctl.formats.vision.family import UnclearError, VisionFiles
from mlxctl.formats.vision.registry import REFUSED, vision_family_of
from mlxctl.ir import VisionRecipe
from mlxctl.ir.errors import BrokenModel
from mlxctl.library.files import read_json_object
from mlxctl.library.safetensors_headers import read_tensors
from mlxctl.library.text_config import text_part, whole_config
from mlxctl.library.weights import include_vision_tower
from mlxctl.state.installed import missing_for


@dataclass(frozen=True, slots=True, kw_only=True)
class VisionSupport:
    """A vision recipe, or the reason why there is none.

    Neither for a text model.
    """

    recipe: VisionRecipe | None = None
    problem: str | None = None


def read_vision_recipe(path: Path, config: Mapping[str, Any]) -> VisionSupport:
    """Read the image input of the model in `path`.

    Raises BrokenModel only for unreadable files.
    """
    config = whole_config(config)
    model_type = str(config.get("model_type"))
    family = vision_family_of(model_type)
    # Some configurations leave the values of their class out.
    vision = config.get("vision_config", None if family is None else {})
    tensors = read_tensors(path)
    if not isinstance(vision, Mapping) or not include_vision_tower(tensors):
        return VisionSupport()
    if family is None:
        return VisionSupport(
            problem=REFUSED.get(model_type, f"images of {model_type} models are not supported")
        )
    if missing := missing_for("vision"):
        return VisionSupport(problem=f"images need {missing}")
    try:
        files = _read_files(path, config, vision, [tensor.name for tensor in tensors])
        return VisionSupport(recipe=family.recipe(files))
    except (UnclearError, BrokenModel) as error:
        return VisionSupport(problem=f"its files do not describe its image input: {error}")


def _read_files(
    path: Path, config: Mapping[str, Any], vision: Mapping[str, Any], tensor_names: Collection[str]
) -> VisionFiles:
    processor = read_json_object(path, "processor_config.json") or {}
    # The newer file takes precedence, but does not always have all values.
    image_processor: dict[str, Any] = {}
    for values in (read_json_object(path, "preprocessor_config.json") or {}, processor):
        inner = values.get("image_processor", values)
        image_processor |= inner if isinstance(inner, Mapping) else {}
    tokenizer = read_json_object(path, "tokenizer_config.json") or {}
    # Older models have one file for images and videos.
    video = read_json_object(path, "video_preprocessor_config.json") or processor.get("video_processor")
    if not isinstance(video, Mapping):
        video = image_processor
    return VisionFiles(
        config, text_part(config), vision, image_processor, processor, tokenizer, video, tensor_names
    )
