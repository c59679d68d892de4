"""A prefill pass that is evaluated some layers at a time.

MLX thread only.
"""

import math
import time
from collections.abc import Sequence
from typing import Protocol

import mlx.core as mx

from mlxctl.engine.decoding import caches as kv
from mlxctl.engine.decoding.shared_caches import announced
from mlxctl.engine.scheduling.batch import TurnLimit
from mlxctl.engine.wire.rank_messages import EvaluateLayers


class PassInTurns(Protocol):
    """A pass that other steps may interrupt."""

    def run(self, turn: TurnLimit | None) -> bool:
        """Continue for a turn; return whether the pass is finished."""


class PrefillPass:
    """A pass over part of a prompt, built and not yet evaluated.

    The caches of a layer depend on those before it, so evaluating them one after the other computes the pass
    in turns, whatever the architecture. Until the last one the caches must not be read or stored.
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
        self._caches = caches
        # The cache of the first layer costs only a projection.
        layers = [kv.arrays(caches[:2]), *(kv.arrays([layer]) for layer in caches[2:])]
        self._remaining = [*encoder_layers, *layers]
        self._num_layers = len(layers)
        self._layer_seconds: float | None = None

    def run(self, turn: TurnLimit | None) -> bool:
        """Evaluate at least one layer; return whether it was the last.

        They take about as long as `turn` says; None evaluates all.
        """
        now = time.monotonic()
        end = math.inf if turn is None else now + turn.seconds
        extra = 0.0 if turn is None else turn.finishing_seconds - turn.seconds
        num_layers = self._num_layers_within(end - now, extra) or 1
        while num_layers:
            begun = now
            is_encoding = len(self._remaining) > self._num_layers
            self.evaluate(num_layers)
            now = time.monotonic()
            self._layer_seconds = (now - begun) / num_layers
            self.encode_seconds += (now - begun) * is_encoding
            num_layers = self._num_layers_within(end - now, extra)
        return not self._remaining

    def evaluate(self, num_layers: int) -> None:
        """Evaluate the next layers."""
        with announced(self._caches, lambda number: EvaluateLayers(caches=number, num_layers=num_layers)):
            mx.eval(self._remaining[:num_layers])
        del self._remaining[:num_layers]

    def _num_layers_within(self, seconds: float, extra: float) -> int:
        """Return how many layers to evaluate within `seconds`.

        Or within `extra` seconds more if no layer is left then. By the duration of the last ones. All are
        layers of the encoder, or of the model.
        """
        num_encoder_layers = len(self._remaining) - self._num_layers
        maximum = num_encoder_layers if num_encoder_layers > 0 else len(self._remaining)
        if math.isinf(seconds):
            return maximum
        if self._layer_seconds is None:
            return 1
        if num_encoder_layers <= 0 and maximum * self._layer_seconds <= seconds + extra:
            return maximum
        return min(max(int(seconds / max(self._layer_seconds, 1e-9)), 0), maximum)
