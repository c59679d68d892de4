"""What a training step reads: rows of token ids, padded to one length, with the places that count."""

import mlx.core as mx

Row = tuple[list[int], int]
"""The ids of a prompt and its answer, and how many of them are the prompt."""


def padded(rows: list[Row]) -> tuple[mx.array, mx.array, mx.array, mx.array]:
    """Pad rows to one length; give the inputs and, flat, where answers are predicted, what they are, their
    weight.

    A row weighs as the square root of its answer's length, so that short answers count.
    """
    width = max(len(ids) for ids, _ in rows) - 1
    inputs, positions, targets, shares = [], [], [], []
    for index, (ids, num_prompt) in enumerate(rows):
        inputs.append(ids[:-1] + [0] * (width - len(ids) + 1))
        answer = range(num_prompt - 1, len(ids) - 1)
        positions += [index * width + place for place in answer]
        targets += ids[num_prompt:]
        shares += [len(answer) ** -0.5] * len(answer)
    weights = mx.array(shares)
    return mx.array(inputs), mx.array(positions), mx.array(targets), weights / weights.sum()
