"""A drafter's caches follow rows that join, leave and lose tokens."""

from random import Random

import mlx.core as mx
from mlx_lm.models.cache import KVCache

from mlxctl.engine.speculation.draft_caches import DraftCaches


def add(caches: list[KVCache], columns: list[list[float]]) -> None:
    """Add tokens to each row; their numbers are keys and values."""
    states = mx.array(columns)[:, None, :, None]
    for layer in caches:
        layer.update_and_fetch(states, -states)


def held(caches: DraftCaches, sequence_id: int) -> list[float]:
    (layer,) = caches.of_row(sequence_id)
    found: list[float] = [] if layer.keys is None else layer.keys[0, 0, : layer.offset, 0].tolist()
    return found


def test_rows_keep_their_tokens_through_joins_and_ragged_trims() -> None:
    random = Random(4)
    caches = DraftCaches(lambda: [KVCache()])
    expected: dict[int, list[float]] = {}
    for number in range(1, 400):
        rows = random.sample(range(5), random.randint(1, 5))
        if random.random() < 0.1:
            caches.drop(rows[0])
            expected.pop(rows[0], None)
        batch = caches.of_batch(rows)
        num_new = random.choice([3, 4, 60])
        new = [[float(number * 10 + row)] * num_new for row in rows]
        add(batch, new)
        drops = [random.randint(0, 3) for _ in rows]
        caches.trim(drops)
        for row, tokens, num in zip(rows, new, drops, strict=True):
            expected[row] = [*expected.get(row, []), *tokens[: num_new - num]]
    assert {row: held(caches, row) for row in expected} == expected
