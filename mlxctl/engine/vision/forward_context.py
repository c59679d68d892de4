"""What the layers of a model that sees have to know beside its tokens, for the pass that is being built.

MLX thread only.

mlx-lm's models take tokens and caches and nothing else. Their layers are told the rest through one object
that they share; a pass is built in one go, so nothing else can be built meanwhile. Told nothing, they do what
they do for words alone.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import mlx.core as mx


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardContext:
    """One pass.

    `shifts` (rows,) are added to the places of its tokens; instead, `cosines` and `sines` (1, 1, tokens,
    frequencies) are those of its positions. `deep` are added to the states after the first layers, (1,
    tokens, width) each. `together` (tokens, tokens) says which tokens attend to each other both ways.
    """

    shifts: mx.array | None = None
    cosines: mx.array | None = None
    sines: mx.array | None = None
    deep: tuple[mx.array, ...] = ()
    together: mx.array | None = None


PLAIN = ForwardContext()


class ForwardContextHolder:
    """Holds the course of the pass that is being built."""

    def __init__(self) -> None:
        self.context = PLAIN

    @contextmanager
    def on(self, context: ForwardContext) -> Iterator[None]:
        """Build a pass on this course."""
        self.context = context
        try:
            yield
        finally:
            self.context = PLAIN
