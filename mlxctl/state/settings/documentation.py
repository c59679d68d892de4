"""Help texts and defaults of settings, read from their sections."""

import ast
import inspect
from dataclasses import MISSING, fields
from functools import cache
from itertools import pairwise
from typing import Any


@cache
def _field_docstrings(section: type) -> dict[str, str]:
    """Return the docstring of each field; empty without source code."""
    try:
        tree = ast.parse(inspect.getsource(section))
    except OSError:
        return {}
    declaration = tree.body[0]
    assert isinstance(declaration, ast.ClassDef)
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
