"""Rows join and leave a batch without copies of the others."""

from typing import Any

import mlx.core as mx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx_lm import load
from mlx_lm.models.cache import KVCache

from mlxctl.engine.decoding import caches as kv
from mlxctl.engine.decoding.quantized_cache import PreallocatedQuantizedKVCache
from mlxctl.ir import KVFormat
from mlxctl.ir.conversation_size import OUTPUT_RESERVE_TOKENS
from tests import tiny_models
from tests.engine.cache_reading import held, keys_of, next_logits, read


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


def row_of(number: int, length: int, *, is_quantized: bool) -> kv.Caches:
    layer = PreallocatedQuantizedKVCache(KVFormat(bits=8, group_size=64)) if is_quantized else KVCache()
    if length:
        layer.update_and_fetch(keys_of(number, length), -keys_of(number, length))
    return [layer]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.data())
def test_rows_keep_their_tokens_when_others_join_and_leave(data: st.DataObject) -> None:
    is_quantized = data.draw(st.booleans(), label="quantized")
    spare_bytes = data.draw(st.sampled_from([0, kv.SPARE_ROWS_BYTES]))
    rows: list[int] = []
    lengths: dict[int, int] = {}
    batch: kv.Caches = []
    for number in range(7):
        length = data.draw(st.integers(0, 300), label="length")
        parts = [batch] * bool(rows) + [row_of(number, length, is_quantized=is_quantized)]
        batch = kv.join(parts, [len(rows), 1] if rows else [1], spare_bytes=spare_bytes)
        rows, lengths[number] = [*rows, number], length
        new = mx.concatenate([keys_of(row, lengths[row] + 1)[:, :, -1:] for row in rows])
        batch[0].update_and_fetch(new, -new)
        lengths |= {row: lengths[row] + 1 for row in rows}
        staying = data.draw(st.sets(st.sampled_from(range(len(rows))), min_size=1), label="staying")
        order = kv.fewest_moves(sorted(staying))
        kv.keep_rows(batch, order)
        rows = [rows[place] for place in order]

        for place, row in enumerate(rows):
            assert held(kv.extract_row(batch, place)[0]) == keys_of(row, lengths[row])[0, 0, :, 0].tolist()


def test_a_row_that_joins_or_leaves_moves_no_other_row(model: Any) -> None:
    batch = kv.join(
        [read(model, [20] * 100), read(model, [21] * 100)], [1, 1], spare_bytes=kv.SPARE_ROWS_BYTES
    )
    kv.keep_rows(batch, [0])
    shapes = [layer.keys.shape for layer in batch]

    joined = kv.join([batch, read(model, [22] * 90), read(model, [23] * 80)], [1, 1, 1])

    assert joined[0] is batch[0]
    assert [layer.keys.shape for layer in joined] == shapes


def test_rows_of_long_prompts_leave_their_memory(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kv, "SPARE_ROWS_BYTES", 1)
    batch = kv.join([read(model, [20] * 100), read(model, [21] * 100), read(model, [22] * 90)], [1, 1, 1])

    kv.keep_rows(batch, [0, 1])

    assert {layer.keys.shape[0] for layer in batch} == {2}


def test_padding_of_the_rows_that_stay_is_cut_off(model: Any) -> None:
    batch = kv.join([read(model, [20] * 300), read(model, [21] * 20), read(model, [22] * 30)], [1, 1, 1])

    kv.keep_rows(batch, [2, 1])

    assert batch[0].size() == 30
