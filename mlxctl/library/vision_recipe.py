"""The image input of a model, or why it is unsupported.

Reads `config.json` and `preprocessor_config.json`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import isqrt
from pathlib import Path
from typing import Any

from mlxctl.ir import VisionKind, VisionRecipe
from mlxctl.ir.errors import BrokenModel
from mlxctl.library.files import read_json_object
from mlxctl.library.safetensors_headers import read_tensors
from mlxctl.library.text_config import text_part
from mlxctl.library.weights import include_vision_tower
from mlxctl.state.installed import missing_for

_KINDS: dict[str, VisionKind] = {
    "gemma3": "gemma",
    "mistral3": "pixtral",
    "pixtral": "pixtral",
    "qwen2_5_vl": "qwen",
    "qwen2_vl": "qwen",
    "qwen3_5": "qwen",
    "qwen3_5_moe": "qwen",
    "qwen3_vl": "qwen",
    "qwen3_vl_moe": "qwen",
}
VISION_MODEL_TYPES = tuple(_KINDS)
"""Values of `model_type` that can take images here."""

_BILINEAR, _BICUBIC, _NUM_FILTERS = 2, 3, 6
# Defaults of the processors of these kinds.
_CLIP_COLORS = ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))
_EVEN_COLORS = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
_PIXTRAL_EDGE = 1024
_QWEN_PIXELS = (56 * 56, 28 * 28 * 1280)
_GEMMA_TOKENS = 256


class _UnclearError(ValueError):
    """A configuration file lacks a needed value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VisionSupport:
    """A vision recipe, or the reason why there is none.

    Neither for a text model.
    """

    recipe: VisionRecipe | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class _Files:
    """The configuration, its vision part, and the image processor's."""

    config: Mapping[str, Any]
    vision: Mapping[str, Any]
    processor: Mapping[str, Any]
    size: Mapping[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        size = self.processor.get("size")
        object.__setattr__(self, "size", size if isinstance(size, Mapping) else {})


def read_vision_recipe(path: Path, config: Mapping[str, Any]) -> VisionSupport:
    """Read the image input of the model in `path`.

    Raises BrokenModel only for unreadable files.
    """
    vision = config.get("vision_config")
    if not isinstance(vision, Mapping) or not include_vision_tower(read_tensors(path)):
        return VisionSupport()
    model_type = config.get("model_type")
    kind = _KINDS.get(model_type) if isinstance(model_type, str) else None
    if kind is None:
        return VisionSupport(problem=f"images of {model_type} models are not supported")
    if missing := missing_for("vision"):
        return VisionSupport(problem=f"images need {missing}")
    try:
        return VisionSupport(recipe=_READERS[kind](_Files(config, vision, _read_processor(path))))
    except (_UnclearError, BrokenModel) as error:
        return VisionSupport(problem=f"its files do not describe its image input: {error}")


def _read_processor(path: Path) -> Mapping[str, Any]:
    inner = (read_json_object(path, "processor_config.json") or {}).get("image_processor")
    return (
        inner
        if isinstance(inner, Mapping) and inner
        else read_json_object(path, "preprocessor_config.json") or {}
    )


def _pixtral(files: _Files) -> VisionRecipe:
    return VisionRecipe(
        kind="pixtral",
        image_token_id=_image_token_id(files),
        cell_size=_size(files.vision, "patch_size") * _size(files.config, "spatial_merge_size", usual=1),
        longest_edge=_size(files.size, "longest_edge", usual=_PIXTRAL_EDGE),
        **_colors(files, _CLIP_COLORS, _BICUBIC),
    )


def _qwen(files: _Files) -> VisionRecipe:
    fewest, most = _QWEN_PIXELS
    return VisionRecipe(
        kind="qwen",
        image_token_id=_image_token_id(files),
        cell_size=_size(files.vision, "patch_size") * _size(files.vision, "spatial_merge_size", usual=2),
        min_pixels=_size(
            files.processor, "min_pixels", usual=_size(files.size, "shortest_edge", usual=fewest)
        ),
        max_pixels=_size(files.processor, "max_pixels", usual=_size(files.size, "longest_edge", usual=most)),
        axes=_axes(files.config),
        **_colors(files, _CLIP_COLORS, _BICUBIC),
    )


def _gemma(files: _Files) -> VisionRecipe:
    side = _size(files.vision, "image_size")
    num_tokens = _size(files.config, "mm_tokens_per_image", usual=_GEMMA_TOKENS)
    num_cells = isqrt(num_tokens)
    if num_cells**2 != num_tokens or side % num_cells:
        raise _UnclearError(f"a square of {side} pixels cannot be divided into {num_tokens} cells")
    return VisionRecipe(
        kind="gemma",
        image_token_id=_image_token_id(files),
        cell_size=side // num_cells,
        side=side,
        **_colors(files, _EVEN_COLORS, _BILINEAR),
    )


_READERS: dict[VisionKind, Callable[[_Files], VisionRecipe]] = {
    "pixtral": _pixtral,
    "qwen": _qwen,
    "gemma": _gemma,
}


def _axes(config: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the axis of each RoPE frequency.

    Three runs one after the other, or, since Qwen3, interleaved until a run ends.
    """
    text = text_part(config)
    rope = text.get("rope_scaling") or text.get("rope_parameters")
    sections = rope.get("mrope_section") if isinstance(rope, Mapping) else None
    if (
        not isinstance(sections, list)
        or len(sections) != 3
        or not all(isinstance(number, int) for number in sections)
    ):
        raise _UnclearError(f"mrope_section is {sections!r}, not three sizes")
    if not str(config.get("model_type")).startswith("qwen3"):
        return tuple(axis for axis, number in enumerate(sections) for _ in range(number))
    return tuple(index % 3 if index < 3 * sections[index % 3] else 0 for index in range(sum(sections)))


def _image_token_id(files: _Files) -> int:
    return _size(
        files.config,
        "image_token_id" if files.config.get("image_token_index") is None else "image_token_index",
    )


def _size(values: Mapping[str, Any], name: str, *, usual: int | None = None) -> int:
    number = values.get(name)
    number = usual if number is None else number
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise _UnclearError(f"{name} is {number!r}, not a size")
    return number


def _colors(files: _Files, usual: tuple[Any, Any], filter_number: int) -> dict[str, Any]:
    resample = files.processor.get("resample")
    resample = filter_number if resample is None else resample
    if resample not in range(_NUM_FILTERS):
        raise _UnclearError(f"resample is {resample!r}, not a filter")
    mean, deviation = (
        _three(files.processor, name, other)
        for name, other in zip(("image_mean", "image_std"), usual, strict=True)
    )
    return {"mean": mean, "deviation": deviation, "resample": int(resample)}


def _three(values: Mapping[str, Any], name: str, usual: tuple[float, ...]) -> tuple[float, ...]:
    value = values.get(name) or list(usual)
    if (
        not isinstance(value, list)
        or len(value) != len(usual)
        or not all(isinstance(number, int | float) for number in value)
    ):
        raise _UnclearError(f"{name} is {value!r}, not three colors")
    return tuple(map(float, value))
