"""`python -m tests.tiny_models.MODEL DIRECTORY`: makes one trained model where it is told."""

import argparse
import ctypes
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path


def make_where_told(
    name: str,
    description: str | None,
    make: Callable[..., float],
    *,
    num_steps: int | None = None,
    names: Sequence[str] = (),
) -> None:
    """Read the command line, call `make(directory, num_steps=...)` and print the last loss, which it returns.

    Where `names` can be chosen from, `name=...` is told, too.
    """
    parser = argparse.ArgumentParser(prog=f"python -m tests.tiny_models.{name}", description=description)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--steps", type=int, default=num_steps)
    if names:
        parser.add_argument("--name", choices=names, default=names[0])
    options = parser.parse_args()
    chosen = {"name": options.name} if names else {}
    with suppress(OSError):
        ctypes.CDLL(
            "libopenblas.so.0", mode=ctypes.RTLD_GLOBAL
        )  # before mlx is imported, as the demo's recipe does
    print(f"{options.directory}: last loss {make(options.directory, num_steps=options.steps, **chosen):.3f}")
