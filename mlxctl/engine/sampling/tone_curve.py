"""The tone curve that may stand in for a temperature. MLX thread only."""

from collections.abc import Sequence as Many

import mlx.core as mx

from mlxctl.engine.sampling.penalties import column
from mlxctl.ir import SamplingParams, ToneCurve

_NONE = ToneCurve()


class ToneCurves:
    """Bends log-probabilities l as the Hybrid Log-Gamma transfer function bends light, with slope
    1/temperature in the middle:

    z = l - (max l - pivot_offset); g(z) = z within +-width, width + shoulder ln(1 + (z - width) / shoulder)
    above, and likewise with the toe below. Ranks never change.
    """

    def __init__(self, params: Many[SamplingParams]) -> None:
        curves = [row.tone_curve or _NONE for row in params]
        self._used = mx.array([row.tone_curve is not None for row in params])[:, None]
        self._width = column([curve.width for curve in curves])
        self._shoulder = column([curve.shoulder for curve in curves])
        self._toe = column([curve.toe for curve in curves])
        self._pivot_offset = column([curve.pivot_offset for curve in curves])

    @classmethod
    def of(cls, params: Many[SamplingParams]) -> "ToneCurves | None":
        """Return what the rows need, None if they need nothing."""
        return (
            cls(params) if any(row.tone_curve is not None and row.temperature > 0 for row in params) else None
        )

    def apply(self, logits: mx.array, temperature: mx.array, tempered: mx.array) -> mx.array:
        """Return the bent logits of the rows that have a curve, and what is `tempered` of the others.

        `temperature`: (B, 1).
        """
        logprobs = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
        z = logprobs - (mx.max(logprobs, axis=-1, keepdims=True) - self._pivot_offset)
        # Where a branch does not apply, its argument is held at the edge, so that no logarithm of a negative
        # is taken.
        shoulder = self._width + self._shoulder * mx.log1p(mx.maximum(z - self._width, 0.0) / self._shoulder)
        toe = -self._width - self._toe * mx.log1p(mx.maximum(-z - self._width, 0.0) / self._toe)
        bent = mx.where(z > self._width, shoulder, mx.where(z < -self._width, toe, z)) / temperature
        return mx.where(self._used, mx.where(logits == -mx.inf, -mx.inf, bent), tempered)
