"""Training batches: rows of token ids, padded, with weights of answer positions."""

import mlx.core as mx

Row = tuple[list[int], int]
"""Ids of prompt and completion, and the number of prompt ids."""


def padded(rows: list[Row]) -> tuple[mx.array, mx.array, mx.array, mx.array]:
    """Pad rows to one length and return inputs, positions, targets and weights.

    Inputs are [rows, length]. The others are flat, one per completion token: its index in the flattened
    inputs, its id, its weight. A row weighs the square root of its completion's length, so that short answers
    count; weights sum to 1.
    """
    width = max(len(ids) for ids, _ in rows) - 1
    inputs, positions, targets, shares = [], [], [], []
    for index, (ids, num_prompt) in enumerate(rows):
        inputs.append(ids[:-1] + [0] * (width - len(ids) + 1))
        answer = range(num_prompt - 1, len(ids) - 1)
        positions += [index * width + position for position in answer]
        targets += ids[num_prompt:]
        shares += [len(answer) ** -0.5] * len(answer)
    weights = mx.array(shares)
    return mx.array(inputs), mx.array(positions), mx.array(targets), weights / weights.sum()
