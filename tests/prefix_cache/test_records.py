"""Records of quantized caches: cut by position, restored, exact outputs."""

from typing import Any

import mlx.core as mx
import pytest
from mlx_lm.utils import load_model

from mlxctl.engine.decoding import caches as kv
from mlxctl.ir import KVFormat
from mlxctl.prefix_cache.disk.encoding import decode, encode
from mlxctl.prefix_cache.records import CacheLayout, KVRecord
from tests.prefix_cache.test_reuse import text
from tests.tiny_models.wide_heads import wide_model

PROMPT = text(300, 1)


@pytest.fixture(scope="module")
def model() -> Any:
    return load_model(wide_model("qwen3"))[0]


def quantized(model: Any, bits: int) -> list[Any]:
    return kv.new_caches(model, KVFormat(bits=bits, group_size=32))


def read(model: Any, caches: list[Any], tokens: list[int]) -> None:
    model(mx.array([tokens]), cache=caches)
    kv.evaluate(caches)


def answer(model: Any, caches: list[Any], token: int, num: int = 6) -> list[int]:
    tokens = []
    for _ in range(num):
        token = int(mx.argmax(model(mx.array([[token]]), cache=caches)[0, -1]).item())
        tokens.append(token)
    return tokens


@pytest.mark.parametrize("bits", [8, 4])
def test_hit_of_any_length_equals_cold_run(model: Any, bits: int) -> None:
    caches = quantized(model, bits)
    layout = CacheLayout(caches)
    read(model, caches, PROMPT)
    records = [layout.cut(caches, start, min(start + 128, 300)) for start in range(0, 300, 128)]

    for num_tokens in (299, 256, 200, 17):
        warm, cold = quantized(model, bits), quantized(model, bits)
        layout.restore(warm, records[: -(-num_tokens // 128)], num_tokens, None, capacity=350)
        read(model, cold, PROMPT[:num_tokens])
        assert answer(model, warm, 5) == answer(model, cold, 5)


def test_quantized_record_has_few_buffers_and_round_trips(model: Any) -> None:
    caches = quantized(model, 4)
    layout = CacheLayout(caches)
    read(model, caches, PROMPT[:256])
    record = layout.cut(caches, 0, 256)

    again = decode(b"".join(encode(record, chunk=b"key", position=None)), chunk=b"key", position=None)

    assert record.num_buffers == 6
    assert not layout.has_states
    assert isinstance(again, KVRecord)
    assert layout.accepts(again, 256)
    assert not layout.accepts(again, 255)
    assert all(
        mx.array_equal(one, other) for one, other in zip(record.groups[0], again.groups[0], strict=True)
    )


class _Pool:
    """A layer whose `state` is read-only, as mlx-lm's deepseek_v41."""

    def __init__(self) -> None:
        self.pooled: mx.array | None = None
        self.offset = 0

    @property
    def state(self) -> tuple[Any, ...]:
        return (self.pooled,)


def test_layer_without_settable_state_is_restored_by_its_attributes() -> None:
    filled, restored = _Pool(), _Pool()
    filled.pooled, filled.offset = mx.arange(3), 7
    layout = CacheLayout([filled])
    stored = b"".join(encode(layout.snapshot([filled]), chunk=bytes(16), position=7))
    record: Any = decode(stored, chunk=bytes(16), position=7)
    layout.restore([restored], [], 7, record, capacity=8)
    assert restored.pooled is not None
    assert (restored.pooled.tolist(), restored.offset) == ([0, 1, 2], 7)
