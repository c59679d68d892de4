"""Generated models with heads of 32 numbers, for quantized KV caches."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from .directory_cache import cached_directory
from .families import FAMILIES

_WIDTHS = {"hidden_size": 128, "head_dim": 32, "block_dim": 128, "query_pre_attn_scalar": 32}
"""For configurations with these fields; the short convolutions of lfm2 compute their head size."""


_VISION = {"out_hidden_size": 128}
_ROPE = {"rope_scaling": {"type": "mrope", "mrope_section": [4, 6, 6]}}


def wide_model(name: str) -> Path:
    """Return the directory of a generated model with wide heads.

    Built at the first use. The only one that takes images is qwen2_5_vl.
    """
    family = FAMILIES[name]
    widened: dict[str, Any] = {key: width for key, width in _WIDTHS.items() if key in family.config}
    if family.sees:
        widened |= {**_ROPE, "vision_config": family.config["vision_config"] | _VISION}
    return cached_directory(replace(family, name=f"{name}_wide", config=family.config | widened))
