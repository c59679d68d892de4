"""The way from the command line to the recipe of the demo model.

The recipe imports mlx, so this is for one-shot commands only.
"""

from pathlib import Path


def train_demo(*, directory: Path | None, seed: int | None, is_quick: bool) -> None:
    """Make the demo model again, in `directory` or in its place in the package, and write down what it can
    do.
    """
    from mlxctl.demo.recipe.__main__ import main

    chosen = {"--out": directory, "--seed": seed}
    words = [word for flag, value in chosen.items() if value is not None for word in (flag, str(value))]
    main([*words, *(["--quick"] if is_quick else [])])
