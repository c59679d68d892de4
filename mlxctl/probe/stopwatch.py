"""How long each phase of probing a model took."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Stopwatch:
    """`seconds` by phase, in the order in which the phases ended."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def times(self, phase: str) -> Iterator[None]:
        """Time what happens inside, however it ends."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[phase] = round(time.perf_counter() - started, 4)
