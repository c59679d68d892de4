"""Packed records: smaller, close to the original, never mixed with exact ones."""

import asyncio
import os
import shutil
from pathlib import Path

import mlx.core as mx
import msgspec
import pytest

from mlxctl.engine.prefix_caches import prefix_namespaces
from mlxctl.ir import KVFormat, ModelSpec, TextGenerationTask
from mlxctl.ir.cache_policy import CachePolicy
from mlxctl.ir.model_spec import TextModelOptions
from mlxctl.prefix_cache.disk.encoding import decode, encode
from mlxctl.prefix_cache.packing import PackedKVRecord, Packing, pack_record, unpack_record
from mlxctl.prefix_cache.records import KVRecord
from mlxctl.state.settings import EngineSettings
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
        Packing(bits=4, exact_tokens=256, group_size=32),
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
    namespaces = {prefix_namespaces(spec)(packing) for packing in packings for spec in specs}
    assert len(namespaces) == len(packings) * len(forms)


def test_small_model_that_is_installed_again_finds_its_records(tmp_path: Path) -> None:
    model = shutil.copytree(tiny_models.model("qwen3"), tmp_path / "model")
    spec = ModelSpec(name="m", path=model, weights_bytes=1, task=TextGenerationTask())
    before = prefix_namespaces(spec)(None)
    weights = model / "model.safetensors"
    os.utime(weights, (1, 1))
    assert prefix_namespaces(spec)(None) == before
    data = weights.read_bytes()
    weights.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert prefix_namespaces(spec)(None) != before


def test_smaller_group_size_is_closer_and_never_larger_than_asked() -> None:
    exact = record(dim=128)
    sizes = {}
    for asked in (128, 64, 32):
        packed = pack_record(exact, 4, group_size=asked)
        assert isinstance(packed, PackedKVRecord)
        assert packed.group_size == asked
        sizes[asked] = packed.num_bytes
    assert sizes[128] < sizes[64] < sizes[32]
    narrow = pack_record(record(dim=64), 4, group_size=128)
    assert isinstance(narrow, PackedKVRecord)
    assert narrow.group_size == 64


@pytest.mark.parametrize(
    ("stored", "in_force", "is_read"),
    [
        (("8", 64, 512), ("4", 64, 512), True),
        (("8", 64, 512), ("8", 64, 256), True),
        (("8", 32, 512), ("8", 64, 512), True),
        (("4", 64, 512), ("8", 64, 512), False),
        (("8", 64, 256), ("8", 64, 512), False),
        (("8", 64, 512), ("8", 32, 512), False),
    ],
)
def test_only_packings_that_are_as_exact_are_read(
    stored: tuple[str, int, int], in_force: tuple[str, int, int], is_read: bool
) -> None:
    def packing(bits: str, group_size: int, exact_tokens: int) -> Packing:
        return Packing(bits=int(bits), group_size=group_size, exact_tokens=exact_tokens)

    assert packing(*stored).is_as_exact_as(packing(*in_force)) is is_read
    assert not packing(*stored).is_as_exact_as(None)


def test_live_switch_reads_exact_entries_and_packs_new_ones() -> None:
    exact = CachePolicy(prefix_cache_bytes=1 << 30, prefix_cache_exact_tokens=512)
    packed = msgspec.structs.replace(exact, prefix_cache_bits="8")
    prompts = [text(1000, seed) for seed in (1, 2, 3)]

    async def run() -> None:
        async with engine("qwen3", None, COLD) as client:
            expected = [(await ask(client, "qwen3", prompt)).token_ids for prompt in prompts]
        async with engine("qwen3", None, EngineSettings(prefix_cache_bytes=1 << 30)) as client:

            async def hit(number: int) -> tuple[int, bool]:
                output = await ask(client, "qwen3", prompts[number])
                return output.num_cached, output.token_ids == expected[number]

            async def size() -> tuple[int | None, int]:
                found = await client.stats()
                return found.prefix_cache_bits, found.cache_bytes

            client.configure_cache(exact)
            assert await hit(0) == (0, True)
            _, exact_bytes = await size()

            client.configure_cache(packed)
            # Read from the exact entry, and stored once more: now quantized.
            assert await hit(0) == (999, True)
            bits, bytes_of_both = await size()
            assert bits == 8
            assert bytes_of_both - exact_bytes < 0.7 * exact_bytes
            await ask(client, "qwen3", prompts[1])
            assert (await hit(1))[0] == 999

            client.configure_cache(exact)
            # The quantized entry is not used: reuse is exact again.
            assert await hit(1) == (0, True)
            assert await hit(0) == (999, True)
            assert (await size())[0] is None

    asyncio.run(run())


def test_row_that_ends_after_a_switch_does_not_reach_exact_prompts() -> None:
    exact = CachePolicy(prefix_cache_bytes=1 << 30, prefix_cache_exact_tokens=0)
    packed = msgspec.structs.replace(exact, prefix_cache_bits="4")

    async def run() -> None:
        async with engine("qwen3", None, COLD) as client:
            expected = (await ask(client, "qwen3", prompt)).token_ids
        async with engine("qwen3", None, EngineSettings(prefix_cache_bytes=1 << 30)) as client:
            client.configure_cache(packed)
            await ask(client, "qwen3", [*prompt, 1, 2, 3])
            running = asyncio.ensure_future(ask(client, "qwen3", prompt, num=200))
            while not (await client.stats()).num_decoding and not running.done():
                await asyncio.sleep(0)
            client.configure_cache(exact)
            await running
            after = await ask(client, "qwen3", prompt)
            assert (after.num_cached, after.token_ids) == (0, expected)

    prompt = text(200, 5)
    asyncio.run(run())


def test_packing_engine_stores_more_and_keeps_first_tokens_exact(tmp_path: Path) -> None:
    def packing(bits: str) -> EngineSettings:
        return EngineSettings(
            prefix_cache_bytes=1 << 30,
            prefix_cache_bits=bits,
            prefix_cache_exact_tokens=512,
            cache_dir=tmp_path / bits,
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
