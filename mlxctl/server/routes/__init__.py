"""The table of routes: one module for each family, with its `ROUTES`."""

from importlib import import_module
from pkgutil import iter_modules

from mlxctl.server.http.route import Route

__all__ = ["all_routes"]


def all_routes(*, has_page: bool = True) -> tuple[Route, ...]:
    """Return the routes of every module here.

    Without `has_page`, not those of the web page's files.
    """
    names = [module.name for module in iter_modules(__path__) if has_page or module.name != "page"]
    return tuple(route for name in names for route in import_module(f"{__name__}.{name}").ROUTES)
