"""Families of models, found in the modules of a package."""

from collections.abc import Sequence
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import TypeVar

_Kind = TypeVar("_Kind")


def declared_in(package: ModuleType, kind: type[_Kind]) -> Sequence[_Kind]:
    """Return the values of this class that modules of a package declare."""
    names = sorted(module.name for module in iter_modules(package.__path__) if module.name != "registry")
    modules = [import_module(f"{package.__name__}.{name}") for name in names]
    return [value for module in modules for value in vars(module).values() if isinstance(value, kind)]
