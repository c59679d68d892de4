"""How a model that sees wants its pictures, from `config.json` and `preprocessor_config.json`. Knows one kind: Pixtral's."""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mlxctl.errors import BrokenModel
from mlxctl.ir import SightRecipe
from mlxctl.models.files import read_json_object
from mlxctl.models.names import spoken_name
from mlxctl.models.safetensors_headers import read_tensors
from mlxctl.models.weights import hold_vision_tower

SEEING_TYPES = ("mistral3", "pixtral")
"""Types whose pictures are computed here: tokens stand one behind the other as words do, and mlx-lm has the part that reads."""

_PACKAGES = ("mlx_vlm", "PIL")
_USUAL_EDGE = 1024
# What Pixtral's processor takes when its file says nothing.
_USUAL_MEAN = (0.48145466, 0.4578275, 0.40821073)
_USUAL_DEVIATION = (0.26862954, 0.26130258, 0.27577711)


def can_see() -> bool:
    """Whether the packages that pictures need are installed."""
    return all(find_spec(package) is not None for package in _PACKAGES)


def read_sight_recipe(path: Path, config: Mapping[str, Any]) -> SightRecipe | None:
    """Read how the model in `path` sees; None for one that reads text only, here. Raises BrokenModel for files of another shape."""
    vision = config.get("vision_config")
    if config.get("model_type") not in SEEING_TYPES or not isinstance(vision, Mapping) or not can_see():
        return None
    if not hold_vision_tower(read_tensors(path)):
        return None
    processor = _read_processor(path)
    size = processor.get("size")
    edge = size.get("longest_edge", _USUAL_EDGE) if isinstance(size, Mapping) else _USUAL_EDGE
    token_id = config.get("image_token_index", config.get("image_token_id"))
    cell_size = [vision.get("patch_size"), config.get("spatial_merge_size", 1)]
    for number in (edge, token_id, *cell_size):
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            raise BrokenModel(path, f"config.json of model {spoken_name(path)!r} does not say how it sees: {number!r} is no size")
    return SightRecipe(
        image_token_id=int(token_id),
        cell_size=cell_size[0] * cell_size[1],
        longest_edge=int(edge),
        mean=_colours(path, processor.get("image_mean"), _USUAL_MEAN),
        deviation=_colours(path, processor.get("image_std"), _USUAL_DEVIATION),
    )


def _read_processor(path: Path) -> Mapping[str, Any]:
    inner = (read_json_object(path, "processor_config.json") or {}).get("image_processor")
    return inner if isinstance(inner, Mapping) and inner else read_json_object(path, "preprocessor_config.json") or {}


def _colours(path: Path, value: Any, usual: tuple[float, float, float]) -> tuple[float, float, float]:
    if value is None:
        return usual
    if not isinstance(value, list) or len(value) != len(usual) or not all(isinstance(number, int | float) for number in value):
        raise BrokenModel(path, f"the image processor of model {spoken_name(path)!r} names no three colours: {value!r}")
    red, green, blue = map(float, value)
    return red, green, blue
