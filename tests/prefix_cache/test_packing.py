"""Packed records: smaller, close to the original, never mixed with exact ones."""

import asyncio
from pathlib import Path

import mlx.core as mx
import pytest

from mlxctl.engine.prefix_caches import prefix_namespace
from mlxctl.ir import KVFormat, ModelSpec, TextGenerationTask
from mlxctl.ir.model_spec import TextModelOptions
from mlxctl.prefix_cache.disk.encoding import decode, encode
from mlxctl.prefix_cache.packing import PackedKVRecord, Packing, pack_record, unpack_record
from mlxctl.prefix_cache.records import KVRecord
from mlxctl.settings import EngineSettings
from tests import tiny_models
from tests.prefix_cache.test_quantized_reuse import engine
from tests.prefix_cache.test_reuse import COLD, ask, text


def record(dim: int = 64, dtype: mx.Dtype = mx.bfloat16) -> KVRecord:
    keys, values = (
        mx.random.normal((4, 2, 256, dim), key=mx.random.key(seed)).astype(dtype) for seed in (1, 2)
    )
    mx.eval(keys, values)
    return KVRecord(((0, 1, 2, 3),), ((keys, values),))


@pytest.mark.parametrize(("bits", "share", "error"), [(8, 0.54, 0.01), (4, 0.29, 0.1)])
def test_packed_record_is_smaller_and_close_to_original(bits: int, share: float, error: float) -> None:
    exact = record()
    packed = pack_record(exact, bits)
    again = unpack_record(packed)

    assert packed.num_bytes <= share * exact.num_bytes
    assert packed.num_buffers == 6
    for one, other in zip(exact.groups[0], again.groups[0], strict=True):
        assert one.dtype == other.dtype
        assert mx.mean(mx.abs(one - other).astype(mx.float32)).item() <= error


def test_unpackable_record_is_unchanged() -> None:
    for odd in (record(dim=80), record(dtype=mx.uint32)):
        assert pack_record(odd, 8) is odd


def test_packed_record_round_trips_through_bytes() -> None:
    packed = pack_record(record(), 4)
    again = decode(b"".join(encode(packed, chunk=b"key", position=None)), chunk=b"key", position=None)

    assert isinstance(packed, PackedKVRecord)
    assert isinstance(again, PackedKVRecord)
    assert again.bits == 4
    for one, other in zip(packed.groups[0], again.groups[0], strict=True):
        assert all(mx.array_equal(part, twin) for part, twin in zip(one, other, strict=True))


def test_packed_and_exact_prefixes_never_mix() -> None:
    model = tiny_models.model("bench5m")
    packings = (
        None,
        Packing(bits=8, exact_tokens=0),
        Packing(bits=4, exact_tokens=0),
        Packing(bits=4, exact_tokens=256),
    )
    forms = (
        None,
        KVFormat(bits=8, group_size=64),
        KVFormat(bits=4, group_size=64),
        KVFormat(bits=4, group_size=32),
        ((0, KVFormat(bits=8, group_size=64)),),
        ((1, KVFormat(bits=8, group_size=64)),),
    )
    tasks = [TextGenerationTask(options=TextModelOptions(kv_format=form)) for form in forms]
    specs = [ModelSpec(name="m", path=model, weights_bytes=1, task=task) for task in tasks]
    namespaces = {prefix_namespace(spec, packing) for packing in packings for spec in specs}
    assert len(namespaces) == len(packings) * len(forms)


def test_packing_engine_stores_more_and_keeps_first_tokens_exact(tmp_path: Path) -> None:
    def packing(bits: str) -> EngineSettings:
        return EngineSettings(
            prefix_cache_bytes=1 << 30,
            prefix_cache_bits=bits,
            prefix_cache_exact_tokens=512,
            cache_dir=tmp_path,
        )

    async def run() -> None:
        prompt = text(1000, 1)
        branch = [*prompt[:512], 7, 8, 9]
        async with engine("qwen3", None, COLD) as client:
            expected = (await ask(client, "qwen3", branch)).token_ids
        sizes = {}
        for bits in ("full", "8"):
            async with engine("qwen3", None, packing(bits)) as client:
                await ask(client, "qwen3", prompt)
                sizes[bits] = (await client.stats()).cache_bytes
                output = await ask(client, "qwen3", prompt)
                other_output = await ask(client, "qwen3", branch)
            assert (output.num_cached, other_output.num_cached) == (999, 512)
            assert other_output.token_ids == expected
        assert sizes["8"] < 0.7 * sizes["full"]
        async with engine("qwen3", None, packing("8")) as client:
            assert (await ask(client, "qwen3", prompt)).num_cached == 999

    asyncio.run(run())
