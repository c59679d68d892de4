"""A prefill pass that is evaluated some layers at a time.

MLX thread only.
"""

import time

import mlx.core as mx

from mlxctl.engine.generation import caches as kv


class PrefillPass:
    """A pass over part of a prompt, built and not yet evaluated.

    The caches of a layer depend on those before it, so evaluating them one after the other computes the pass
    in slices, whatever the architecture. Until the last one the caches must not be read or stored. `states`
    are the pass's final hidden states (1, tokens, width), where a drafter needs them.
    """

    def __init__(self, caches: kv.Caches, *, states: mx.array | None) -> None:
        self.states = states
        self._remaining = list(caches)
        self._layer_seconds: float | None = None

    def run(self, max_seconds: float | None) -> bool:
        """Evaluate the next layers, at least one; return whether it was the last.

        They take about `max_seconds`; None evaluates all.
        """
        begun = started = time.monotonic()
        num_layers = self._num_layers_within(max_seconds) or 1
        while num_layers:
            # The first layer's cache costs only a projection, so it comes with the next one.
            end = num_layers + (self._layer_seconds is None)
            kv.evaluate(self._remaining[:end])
            del self._remaining[:end]
            now = time.monotonic()
            self._layer_seconds, begun = (now - begun) / num_layers, now
            num_layers = self._num_layers_within(max_seconds and max_seconds - (now - started))
        return not self._remaining

    def _num_layers_within(self, seconds: float | None) -> int:
        """Return how many layers to evaluate next, by the duration of the last ones."""
        if seconds is None:
            return len(self._remaining)
        if self._layer_seconds is None:
            return 1
        return min(max(int(seconds / max(self._layer_seconds, 1e-9)), 0), len(self._remaining))
