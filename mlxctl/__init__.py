"""mlxctl: serve, probe, chat with and measure MLX models."""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

__version__ = "0.1.0"


def on_demand(room: str, names: Sequence[str], homes: Sequence[str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a room that imports the modules at home in it when a name is asked for, one
    after the other.

    PERF: a shell that completes a name waits for one small module, not for the whole room. No module may be
    called like a name.
    """

    def find(name: str) -> Any:
        for home in homes if name in names else ():
            found = vars(import_module(f"{room}.{home}"))
            if name in found:
                return found[name]
        raise AttributeError(f"module {room!r} has no attribute {name!r}")

    return find
