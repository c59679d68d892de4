"""Shares of callers in the disk tier."""

from pathlib import Path

import pytest

from mlxctl.ir.cache_namespace import cache_namespace, key_scope
from mlxctl.ir.tokens import Salt, prompt_salts
from mlxctl.prefix_cache.disk import record_store
from mlxctl.prefix_cache.disk.tier import DiskTier
from mlxctl.prefix_cache.index import PrefixIndex
from mlxctl.prefix_cache.packing import Record

from .disk_records import NAMESPACE, closed, conversation, opened, publish_conversation, store

MAX_BYTES = 400_000
NUM_TOKENS = 600
NUM_RECORDS = 40


def salts_of(key: bytes, cache_salt: str = "") -> tuple[Salt, ...]:
    return prompt_salts(cache_namespace(key_scope(key), cache_salt), ())


MODEST = salts_of(b"modest")


def write(tier: DiskTier, seeds: range, salts: tuple[Salt, ...]) -> None:
    index: PrefixIndex[Record] = PrefixIndex(max_bytes=1 << 40)
    for seed in seeds:
        assert tier.store(publish_conversation(index, seed, NUM_TOKENS, salts))


def num_stored(tier: DiskTier, seeds: range, salts: tuple[Salt, ...], *, num_tokens: int = NUM_TOKENS) -> int:
    return sum(
        tier.index.match(NAMESPACE, conversation(seed, num_tokens), salts).num_tokens == num_tokens
        for seed in seeds
    )


def test_caller_that_fills_the_disk_keeps_what_others_have(tmp_path: Path) -> None:
    tier = opened(tmp_path, max_bytes=MAX_BYTES)
    write(tier, range(2), MODEST)
    for number in range(5):
        write(tier, range(100 + 10 * number, 110 + 10 * number), salts_of(b"greedy", f"salt {number}"))
    assert num_stored(tier, range(2), MODEST) == 2
    assert 0 < tier.index.num_bytes <= MAX_BYTES
    closed(tier)

    tier = opened(tmp_path, max_bytes=MAX_BYTES)
    assert num_stored(tier, range(2), MODEST) == 2
    write(tier, range(200, 230), salts_of(b"greedy"))
    assert num_stored(tier, range(2), MODEST) == 2
    assert num_stored(tier, range(228, 230), salts_of(b"greedy")) == 2
    tier.index.check_integrity()
    closed(tier)


def test_number_of_records_is_bounded_since_each_takes_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_store, "_LEAST_RECORDS", NUM_RECORDS)
    tier = opened(tmp_path, max_bytes=MAX_BYTES)
    store(tier, *range(60), num_tokens=20)
    tier.index.check_integrity()
    kept = [seed for seed in range(60) if tier.index.match(NAMESPACE, conversation(seed, 20)).num_tokens]
    # Each has a state as well.
    assert kept == list(range(60 - NUM_RECORDS // 2, 60))
    closed(tier)

    monkeypatch.setattr(record_store, "_LEAST_RECORDS", NUM_RECORDS // 2)
    tier = opened(tmp_path, max_bytes=MAX_BYTES)
    assert len(tier.index) == NUM_RECORDS // 4
    assert tier.file_bytes < MAX_BYTES / 10
    closed(tier)


def test_caller_with_many_records_keeps_the_few_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_store, "_LEAST_RECORDS", NUM_RECORDS)
    tier = opened(tmp_path, max_bytes=MAX_BYTES)
    # Few long ones: more bytes than the many short ones have together.
    write(tier, range(2), MODEST)
    for seed in range(100, 200):
        index: PrefixIndex[Record] = PrefixIndex(max_bytes=1 << 40)
        assert tier.store(publish_conversation(index, seed, 20, salts_of(b"greedy")))
    assert num_stored(tier, range(2), MODEST) == 2
    assert num_stored(tier, range(199, 200), salts_of(b"greedy"), num_tokens=20) == 1
    assert tier.index.num_buffers <= NUM_RECORDS
    closed(tier)
