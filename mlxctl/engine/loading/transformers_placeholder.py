"""Importing mlx-lm without `transformers`, which only its tokenizers need.

On import, `transformers` reads the sources of all its models: half of the time that an engine needs to start.
"""

import contextlib
import importlib.abc
import logging
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from mlxctl.engine.host.failures import FOREIGN_ERRORS
from mlxctl.engine.loading.loader import import_mlx_lm

_PACKAGE = "transformers"

_log = logging.getLogger(__name__)


def import_mlx_lm_alone() -> ModuleType:
    """Return `mlx_lm.utils`, whose tokenizers cannot be used in this process.

    Later imports of `transformers` find the real one.
    """
    if _PACKAGE in sys.modules or "mlx_lm" in sys.modules:
        return import_mlx_lm()
    try:
        with _placeholder():
            return import_mlx_lm()
    except (*FOREIGN_ERRORS, ImportError) as error:
        # A later mlx-lm may use more than the names of classes.
        _log.info("importing transformers, which this version of mlx-lm needs at import: %s", error)
        _forget("mlx_lm")
        return import_mlx_lm()


@contextlib.contextmanager
def _placeholder() -> Iterator[None]:
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        _forget(_PACKAGE)


def _forget(package: str) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        del sys.modules[name]


class _Placeholder:
    """A class of `transformers`: it can be subclassed, compared and registered."""

    apply_chat_template = None

    @classmethod
    def register(cls, *_: object, **__: object) -> None:
        """Register nothing."""


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `transformers` and its modules, with a placeholder for every public name."""

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        if fullname.partition(".")[0] != _PACKAGE:
            return None
        return ModuleSpec(fullname, self, is_package=True)

    def exec_module(self, module: ModuleType) -> None:
        def placeholder(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            return type(name, (_Placeholder,), {})

        module.__getattr__ = placeholder  # type: ignore[method-assign]
