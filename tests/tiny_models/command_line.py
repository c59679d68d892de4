"""The command line of one trained model: `python -m tests.tiny_models.MODEL DIRECTORY`."""

import argparse
import ctypes
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path


def make_from_command_line(
    name: str,
    description: str | None,
    make: Callable[..., float],
    *,
    num_steps: int | None = None,
    names: Sequence[str] = (),
) -> None:
    """Call `make(directory, num_steps=...)` and print the last loss.

    With `names`, `name=...` is passed too.
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
        )  # before mlx is imported, as in tools.demo_model
    print(f"{options.directory}: last loss {make(options.directory, num_steps=options.steps, **chosen):.3f}")
