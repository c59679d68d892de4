"""The table of routes: one module for each family, with its `ROUTES`."""

from collections.abc import Iterable, Iterator
from importlib import import_module
from pkgutil import iter_modules

from mlxctl.server import compat
from mlxctl.server.http.route import Route

__all__ = ["all_routes"]


def all_routes(*, has_page: bool = True) -> tuple[Route, ...]:
    """Return the routes of every module here and in `compat`.

    Without `has_page`, not those of the web page's files.
    """
    modules = (*_modules(__path__, __name__), *_modules(compat.__path__, compat.__name__))
    return tuple(
        route
        for name in modules
        if has_page or name != f"{__name__}.page"
        for route in getattr(import_module(name), "ROUTES", ())
    )


def _modules(path: Iterable[str], package: str) -> Iterator[str]:
    return (f"{package}.{module.name}" for module in iter_modules(path))
