"""A prefill pass that is evaluated some layers at a time.

MLX thread only.
"""

import time
from collections.abc import Sequence

import mlx.core as mx

from mlxctl.engine.generation import caches as kv


class PrefillPass:
    """A pass over part of a prompt, built and not yet evaluated.

    The caches of a layer depend on those before it, so evaluating them one after the other computes the pass
    in slices, whatever the architecture. Until the last one the caches must not be read or stored.
    `encoder_layers` are the states of a vision encoder's layers, which come first; `encode_seconds` is their
    time so far. `states` are the pass's final hidden states (1, tokens, width), where a drafter needs them.
    """

    def __init__(
        self,
        caches: kv.Caches,
        *,
        states: mx.array | None,
        encoder_layers: Sequence[Sequence[mx.array]] = (),
    ) -> None:
        self.states = states
        self.encode_seconds = 0.0
        # The cache of the first layer costs only a projection.
        layers = [kv.arrays(caches[:2]), *(kv.arrays([layer]) for layer in caches[2:])]
        self._remaining = [*encoder_layers, *layers]
        self._num_layers = len(layers)
        self._layer_seconds: float | None = None

    def run(self, max_seconds: float | None) -> bool:
        """Evaluate at least one layer; return whether it was the last.

        They take about `max_seconds`; None evaluates all.
        """
        now = time.monotonic()
        end = None if max_seconds is None else now + max_seconds
        num_layers = self._num_layers_within(max_seconds) or 1
        while num_layers:
            begun = now
            is_encoding = len(self._remaining) > self._num_layers
            mx.eval(self._remaining[:num_layers])
            del self._remaining[:num_layers]
            now = time.monotonic()
            self._layer_seconds = (now - begun) / num_layers
            self.encode_seconds += (now - begun) * is_encoding
            num_layers = self._num_layers_within(None if end is None else end - now)
        return not self._remaining

    def _num_layers_within(self, seconds: float | None) -> int:
        """Return how many layers to evaluate next.

        By the duration of the last ones. All are layers of the encoder, or of the model.
        """
        num_encoder_layers = len(self._remaining) - self._num_layers
        maximum = num_encoder_layers if num_encoder_layers > 0 else len(self._remaining)
        if seconds is None:
            return maximum
        if self._layer_seconds is None:
            return 1
        return min(max(int(seconds / max(self._layer_seconds, 1e-9)), 0), maximum)
