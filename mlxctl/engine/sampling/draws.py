"""Draws: the tokens that a sampler chooses. MLX thread only."""

from collections import abc
from dataclasses import dataclass
from typing import Any, Protocol

import mlx.core as mx
import numpy as np

from mlxctl.engine.sampling.host_draw import draw_token
from mlxctl.engine.sampling.logprobs import ScoresInFlight, score_of
from mlxctl.engine.scheduling.sequence import Sequence
from mlxctl.engine.wire.reports import Score
from mlxctl.ir import SamplingParams


class Draw(Protocol):
    """The next tokens (B,) of a batch, uint32, and requested scores.

    A pass may be built from `tokens` at once, and computed after `finish`.
    """

    @property
    def tokens(self) -> mx.array:
        """The tokens."""
        ...

    def arrays(self) -> list[mx.array]:
        """Return the arrays to evaluate before the draw is finished."""
        ...

    def finish(self) -> None:
        """Wait for the device and choose tokens, where the host does."""
        ...

    def scores(self) -> list[Score | None]:
        """Wait for the device and return the requested scores."""
        ...


@dataclass(frozen=True, slots=True)
class DeviceDraw:
    """Tokens that the device chooses in the pass itself."""

    tokens: mx.array
    scores_in_flight: ScoresInFlight | None
    num_wanted: list[int | None]

    def arrays(self) -> list[mx.array]:
        """Return the tokens and the arrays of scores."""
        return [self.tokens, *(self.scores_in_flight.arrays() if self.scores_in_flight else ())]

    def finish(self) -> None:
        """Do nothing: whatever uses the tokens waits for them."""

    def scores(self) -> list[Score | None]:
        """Wait for the device and return the requested scores."""
        if self.scores_in_flight is None:
            return [None] * len(self.num_wanted)
        return self.scores_in_flight.read(self.num_wanted)


class HostDraw:
    """Tokens that the host chooses once the logits are computed.

    Only where the host reads the device's memory. `tokens` has a buffer that `finish` writes.
    """

    def __init__(
        self,
        raw: mx.array,
        processed: mx.array,
        rows: abc.Sequence[Sequence],
        forced: abc.Sequence[int] | None,
    ) -> None:
        """`raw` (B, V) are the logits for scores, float32.

        `processed` are those after penalties and masks.
        """
        self.tokens = mx.array([0] * len(rows), dtype=mx.uint32)
        self._rows: list[tuple[SamplingParams, int]] = [
            (row.sampling, row.num_sampled_tokens) for row in rows
        ]
        self._forced = forced or [-1] * len(rows)
        has_scores = any(params.num_top_logprobs is not None for params, _ in self._rows)
        self._processed: mx.array | None = processed
        self._raw = raw if has_scores else None
        self._scores: list[Score | None] = [None] * len(rows)

    def arrays(self) -> list[mx.array]:
        """Return the logits, none once the tokens are chosen."""
        return [array for array in (self._processed, self._raw) if array is not None]

    def finish(self) -> None:
        """Choose the tokens, at the first call."""
        if self._processed is None:
            return
        mx.eval(*self.arrays())
        processed: Any = np.array(self._processed, copy=False)
        chosen = [
            forced if forced >= 0 else draw_token(logits, *row)
            for logits, row, forced in zip(processed, self._rows, self._forced, strict=True)
        ]
        tokens: Any = np.array(self.tokens, copy=False)
        tokens[:] = chosen
        if self._raw is not None:
            raw: Any = np.array(self._raw, copy=False)
            self._scores = [
                None if params.num_top_logprobs is None else score_of(logits, token, params.num_top_logprobs)
                for logits, token, (params, _) in zip(raw, chosen, self._rows, strict=True)
            ]
        self._processed = self._raw = None

    def scores(self) -> list[Score | None]:
        """Finish and return the requested scores."""
        self.finish()
        return self._scores
