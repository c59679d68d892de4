"""Plain computations of sampling filters, in float64."""

from typing import Any

import numpy as np

from mlxctl.ir import ToneCurve

Row = Any


def softmax(row: Row) -> Row:
    powers = np.exp(row.astype(np.float64) - row.max())
    return powers / powers.sum()


def typical_tokens(row: Row, share: float) -> set[int]:
    probabilities = softmax(row)
    surprise = -np.log(probabilities)
    distance = np.abs(surprise - (probabilities * surprise).sum())
    total, chosen = 0.0, set()
    for token in np.argsort(distance, kind="stable"):
        chosen.add(int(token))
        total += probabilities[token]
        if total >= share:
            break
    return chosen


def hlg(row: Row, curve: ToneCurve, temperature: float) -> Row:
    logprobs = np.log(softmax(row))
    z = logprobs - (logprobs.max() - curve.pivot_offset)
    bent = [
        curve.width + curve.shoulder * np.log(1 + (value - curve.width) / curve.shoulder)
        if value > curve.width
        else -curve.width - curve.toe * np.log(1 + (-value - curve.width) / curve.toe)
        if value < -curve.width
        else value
        for value in z
    ]
    return np.array(bent) / temperature


def most_likely_tokens(row: Row, top_k: int, top_p: float) -> set[int]:
    order = np.argsort(-row, kind="stable")[: top_k or None]
    before = np.cumsum(softmax(row[order])) - softmax(row[order])
    # A sum that rounds to 1 removes nothing.
    floor = row[order][(before < top_p) | (top_p == 1)].min()
    return set(np.nonzero(row >= floor)[0].tolist())
