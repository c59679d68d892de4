"""Tone curve, an alternative to temperature. MLX thread only."""

from collections.abc import Sequence as Many

import mlx.core as mx

from mlxctl.engine.sampling.penalties import column
from mlxctl.ir import SamplingParams, ToneCurve

_NONE = ToneCurve()


class ToneCurves:
    """Transforms log-probabilities l by the Hybrid Log-Gamma transfer function.

    z = l - (max l - pivot_offset); g(z) = z within +-width, width + shoulder ln(1 + (z - width) / shoulder)
    above, and likewise with the toe below; the result is divided by the temperature. The order of tokens
    never changes.
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
        """Return the curves of the rows, None if no row has one."""
        return (
            cls(params) if any(row.tone_curve is not None and row.temperature > 0 for row in params) else None
        )

    def apply(self, logits: mx.array, temperature: mx.array, tempered: mx.array) -> mx.array:
        """Return transformed logits for rows with a curve, `tempered` ones for others.

        `temperature` is (B, 1).
        """
        logprobs = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
        z = logprobs - (mx.max(logprobs, axis=-1, keepdims=True) - self._pivot_offset)
        # Arguments of the branch not used are clipped, so that no logarithm of a negative number is taken.
        shoulder = self._width + self._shoulder * mx.log1p(mx.maximum(z - self._width, 0.0) / self._shoulder)
        toe = -self._width - self._toe * mx.log1p(mx.maximum(-z - self._width, 0.0) / self._toe)
        curved = mx.where(z > self._width, shoulder, mx.where(z < -self._width, toe, z)) / temperature
        return mx.where(self._used, mx.where(logits == -mx.inf, -mx.inf, curved), tempered)
