"""Inputs of a vision model's layers beside its tokens. MLX thread only.

mlx-lm's models take tokens and caches only. Their layers get the rest through one shared object; a pass is
built without interruption, so no other pass can see it. Without a context, layers compute as for text.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import mlx.core as mx


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardContext:
    """The context of one forward pass.

    `shifts` (rows,) are added to the positions of its tokens; instead, `cosines` and `sines` (1, 1, tokens,
    frequencies) are those of its positions, or `positions` (3, 1, tokens) for a text model that takes them.
    `deep` are added to the states after the first layers, (1, tokens, width) each. `together` (tokens,
    tokens) marks tokens that attend to each other in both directions.
    """

    shifts: mx.array | None = None
    positions: mx.array | None = None
    cosines: mx.array | None = None
    sines: mx.array | None = None
    deep: tuple[mx.array, ...] = ()
    together: mx.array | None = None


PLAIN = ForwardContext()


class ForwardContextHolder:
    """Holds the context of the pass that is being built."""

    def __init__(self) -> None:
        self.context = PLAIN

    @contextmanager
    def on(self, context: ForwardContext) -> Iterator[None]:
        """Build a pass with this context."""
        self.context = context
        try:
            yield
        finally:
            self.context = PLAIN
