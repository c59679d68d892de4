"""Shares of callers in the disk tier."""

from pathlib import Path

from mlxctl.ir.tokens import Salt, prompt_salts
from mlxctl.policy.cache_namespace import cache_namespace, key_scope
from mlxctl.prefix_cache.disk.tier import DiskTier
from mlxctl.prefix_cache.index import PrefixIndex
from mlxctl.prefix_cache.packing import Record

from .disk_records import NAMESPACE, closed, conversation, opened, publish_conversation

MAX_BYTES = 400_000
NUM_TOKENS = 600


def salts_of(key: bytes, cache_salt: str = "") -> tuple[Salt, ...]:
    return prompt_salts(cache_namespace(key_scope(key), cache_salt), ())


MODEST = salts_of(b"modest")


def write(tier: DiskTier, seeds: range, salts: tuple[Salt, ...]) -> None:
    index: PrefixIndex[Record] = PrefixIndex(max_bytes=1 << 40)
    for seed in seeds:
        assert tier.store(publish_conversation(index, seed, NUM_TOKENS, salts))


def num_stored(tier: DiskTier, seeds: range, salts: tuple[Salt, ...]) -> int:
    return sum(
        tier.index.match(NAMESPACE, conversation(seed, NUM_TOKENS), salts).num_tokens == NUM_TOKENS
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
