"""Prompts whose first tokens have a longer lifetime than the rest."""

import math
from typing import Any

import mlx.core as mx
import pytest
from mlx_lm.models.cache import KVCache

from mlxctl.ir.tokens import pack
from mlxctl.prefix_cache.cache import ComputedTokens, PrefixCache, StorageFormat
from mlxctl.prefix_cache.index import PrefixIndex
from mlxctl.prefix_cache.packing import Record
from mlxctl.prefix_cache.policy import UNLIMITED_LIFETIME, Lifetime
from mlxctl.prefix_cache.records import CacheLayout
from tests.prefix_cache.test_lifetimes import Clock

PROMPT = pack([20 + place % 400 for place in range(2000)])
# The long-TTL prefix ends in the second of four chunks.
LIFETIME = Lifetime(seconds=300, num_long_ttl_tokens=700, long_ttl_seconds=3600)


class StoredPrompt:
    """A prefix cache with a test clock, and one stored prompt."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.index: PrefixIndex[Record] = PrefixIndex(
            max_bytes=1 << 30, clock=self.clock, buffers_of=lambda record: record.num_buffers
        )
        self.cache = PrefixCache(
            self.index, storage=StorageFormat(namespace=b"weights"), layout=CacheLayout([KVCache()])
        )

    def store(self, lifetime: Lifetime, num_tokens: int = 2000) -> None:
        computed = ComputedTokens(tokens=PROMPT, caches=filled_caches(num_tokens), lifetime=lifetime)
        self.cache.store(computed, num_tokens, last_chunk=None, at_checkpoint=True)

    def use(self, lifetime: Lifetime) -> None:
        plan = self.cache.plan(PROMPT, boundary_ids=frozenset())
        assert self.cache.restore(plan, [KVCache()], capacity=0, lifetime=lifetime)[0] == plan.num_cached

    def num_matched_after(self, seconds: float) -> int:
        self.clock.now += seconds
        self.index.expire()
        self.index.check_integrity()
        return self.cache.plan(PROMPT, boundary_ids=frozenset()).num_matched


def filled_caches(num_tokens: int) -> list[Any]:
    layer = KVCache()
    layer.update_and_fetch(mx.zeros((1, 1, num_tokens, 8)), mx.zeros((1, 1, num_tokens, 8)))
    return [layer]


def test_long_ttl_prefix_outlives_the_rest() -> None:
    stored = StoredPrompt()
    stored.store(LIFETIME)

    # The chunk in which the long-TTL prefix ends gets the long TTL as a whole.
    assert [stored.num_matched_after(seconds) for seconds in (299, 2, 3200, 200)] == [2000, 1024, 1024, 0]


def test_use_renews_each_part_with_its_own_ttl() -> None:
    stored = StoredPrompt()
    stored.store(LIFETIME)
    assert stored.num_matched_after(200) == 2000

    stored.use(LIFETIME)

    assert [stored.num_matched_after(seconds) for seconds in (299, 2, 3200, 200)] == [2000, 1024, 1024, 0]


def test_reuse_of_working_cache_renews_ttl() -> None:
    stored = StoredPrompt()
    stored.store(LIFETIME)
    assert stored.num_matched_after(200) == 2000

    stored.cache.record_reuse(stored.cache.plan(PROMPT, boundary_ids=frozenset()), 1999, lifetime=LIFETIME)

    assert [stored.num_matched_after(seconds) for seconds in (299, 2, 3200, 200)] == [2000, 1024, 1024, 0]


def test_unlimited_lifetime_is_not_shortened() -> None:
    stored = StoredPrompt()
    stored.store(LIFETIME)
    stored.store(UNLIMITED_LIFETIME, 1536)

    assert stored.num_matched_after(1e9) == 1536


@pytest.mark.parametrize("num_long_ttl_tokens", [1, 512, 513, 5000])
def test_chunks_starting_in_long_ttl_prefix_get_long_ttl(num_long_ttl_tokens: int) -> None:
    stored = StoredPrompt()
    stored.store(Lifetime(seconds=300, num_long_ttl_tokens=num_long_ttl_tokens, long_ttl_seconds=3600))

    assert stored.num_matched_after(301) == min(2000, math.ceil(num_long_ttl_tokens / 512) * 512)
