"""Readers that decide in steps.

Each step parses one tag or a part of one value.
"""

from collections.abc import Callable, Sequence

from mlxctl.formats.parsers.declarations import Signal

Step = tuple[int, Sequence[Signal]]
"""Where a step stopped, and what it decided."""


def read_steps(step: Callable[[str, int], Step | None], text: str, start: int) -> Step:
    """Take steps from `start` up to the next decision.

    A step that is None needs more text.
    """
    at = start
    while (found := step(text, at)) is not None:
        at, signals = found
        if signals:
            return at, signals
    return at, ()
