"""Batches are joined in one copy, with space for the output."""

from typing import Any

import mlx.core as mx
import pytest
from mlx_lm import load

from mlxctl.engine.generation import caches as kv
from mlxctl.engine.scheduling.sequence import OUTPUT_RESERVE_TOKENS
from tests import tiny_models
from tests.engine.cache_reading import next_logits, read


@pytest.fixture(scope="module")
def model() -> Any:
    return load(str(tiny_models.model("qwen3")))[0]


def test_joined_rows_of_any_length_compute_as_alone(model: Any) -> None:
    prompts = [list(range(20, 20 + num)) for num in (7, 300, 0, 40)]
    alone = [next_logits(model, read(model, prompt), [5])[0] for prompt in prompts]
    pair = kv.join([read(model, prompts[0]), read(model, prompts[1])], [1, 1])

    batch = kv.join([pair, read(model, prompts[2]), read(model, prompts[3])], [2, 1, 1])

    together = next_logits(model, batch, [5] * 4)
    assert all(mx.allclose(one, other, atol=1e-4) for one, other in zip(alone, together, strict=True))


def test_first_output_tokens_do_not_reallocate_a_batch(model: Any) -> None:
    batch = kv.join([read(model, [20] * 10), read(model, [21] * 100)], [1, 1])
    sizes = [layer.keys.shape for layer in batch]

    for _ in range(OUTPUT_RESERVE_TOKENS):
        next_logits(model, batch, [5, 6])

    assert [layer.keys.shape for layer in batch] == sizes


def test_joining_frees_the_caches_of_single_rows(model: Any) -> None:
    parts = [read(model, [20] * 600), read(model, [21] * 600)]

    kv.join(parts, [1, 1])

    assert all(layer.keys is None for part in parts for layer in part)
