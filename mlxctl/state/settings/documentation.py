"""Help texts and defaults of settings, read from their sections."""

import ast
import inspect
import sys
from dataclasses import MISSING, fields
from functools import cache
from itertools import pairwise
from typing import Any


@cache
def _classes(module: str) -> dict[str, ast.ClassDef]:
    """Return the classes of a module by name; empty without source code."""
    try:
        # PERF: the source of one class is found by its tokens, which takes three times as long.
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except OSError:
        return {}
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


@cache
def _field_docstrings(section: type) -> dict[str, str]:
    """Return the docstring of each field; empty without source code."""
    declaration = _classes(section.__module__).get(section.__name__)
    if declaration is None:
        return {}
    return {
        field.target.id: text.value.value
        for field, text in pairwise(declaration.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def describe_field(section: type, name: str) -> str:
    """Return the docstring of the field `name`, as one paragraph."""
    return " ".join(_field_docstrings(section).get(name, "").split())


def describe_default(section: type, name: str) -> str:
    """Return the default as written in a settings file; empty without one."""
    default: Any = next(field.default for field in fields(section) if field.name == name)
    if default in (None, (), MISSING, False):
        return ""
    if name.endswith("_bytes"):
        return next(f"{default // size}{unit}" for unit, size in _UNITS.items() if default % size == 0)
    return f"{default:g}" if isinstance(default, float) else str(default)


_UNITS = {"GiB": 1024**3, "MiB": 1024**2, "KiB": 1024, "B": 1}
