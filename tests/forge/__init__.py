"""Forges tiny models with random weights for tests: structure without ability.

`model(name)` gives the directory of a model that `mlx_lm.load` takes as it takes any other; `NAMES` says which there
are. They are made when first asked for and kept outside the repository (see `shelf`). A model that really answers is
the demo model of the package.
"""

from pathlib import Path

from .families import FAMILIES
from .shelf import shelved

NAMES = tuple(FAMILIES)


def model(name: str) -> Path:
    """Give the directory of the forged model `name`, making it first if need be.

    Raises KeyError if there is no such recipe.
    """
    return shelved(FAMILIES[name])


__all__ = ["NAMES", "model"]
