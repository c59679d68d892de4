"""Bounds of numbers in settings sections."""

from dataclasses import field
from typing import Any

MAX_INTEGER = 2**63 - 1
"""The largest integer that the processes of a server can exchange."""


def bounded(default: Any, *, least: float, most: float | None = None) -> Any:
    """Return a field for a number from `least` to `most`, inclusive."""
    return field(default=default, metadata={"least": least, "most": most})
