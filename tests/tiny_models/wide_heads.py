"""Forged models with heads of 32 numbers, so that their keys and values can be quantized in groups."""

from dataclasses import replace
from pathlib import Path

from .directory_cache import cached_directory
from .families import FAMILIES

_WIDTHS = {"hidden_size": 128, "head_dim": 32, "block_dim": 128, "query_pre_attn_scalar": 32}
"""Of configurations that name them; the short convolutions of lfm2 work out the size of their heads
themselves.
"""


def wide_model(name: str) -> Path:
    """Give the directory of the forged model `name` with wide heads, making it first if need be."""
    family = FAMILIES[name]
    widened = {key: width for key, width in _WIDTHS.items() if key in family.config}
    return cached_directory(replace(family, name=f"{name}_wide", config=family.config | widened))
