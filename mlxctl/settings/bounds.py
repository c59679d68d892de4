"""Bounds of numbers in settings sections."""

from dataclasses import field
from typing import Any


def bounded(default: Any, *, least: float, most: float | None = None) -> Any:
    """Return a field for a number from `least` to `most`, inclusive."""
    return field(default=default, metadata={"least": least, "most": most})
