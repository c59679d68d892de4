"""Where layer states are planned, and which are evicted."""

from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import ArraysCache, KVCache

from mlxctl.ir.tokens import Tokens, pack
from mlxctl.prefix_cache.cache import ComputedTokens, PrefixCache, StorageFormat
from mlxctl.prefix_cache.index import PrefixIndex
from mlxctl.prefix_cache.packing import Record
from mlxctl.prefix_cache.policy import MAX_STATE_SHARE
from mlxctl.prefix_cache.records import CacheLayout

NUM_TOKENS = 64


def empty_caches() -> list[Any]:
    return [KVCache(), ArraysCache(1)]


def computed(tokens: Tokens) -> ComputedTokens:
    attention, recurrent = empty_caches()
    attention.update_and_fetch(mx.zeros((1, 1, NUM_TOKENS, 8)), mx.zeros((1, 1, NUM_TOKENS, 8)))
    recurrent[0] = mx.zeros((1, 256, 8))
    return ComputedTokens(tokens=tokens, caches=[attention, recurrent])


def new_cache() -> tuple[PrefixIndex[Record], PrefixCache]:
    index: PrefixIndex[Record] = PrefixIndex(max_bytes=1 << 30, buffers_of=lambda record: record.num_buffers)
    storage = StorageFormat(namespace=b"weights")
    return index, PrefixCache(index, storage=storage, layout=CacheLayout(empty_caches()))


def test_state_is_planned_where_a_match_ends_without_one() -> None:
    _, cache = new_cache()
    stored = pack([1] * NUM_TOKENS)
    cache.store(computed(stored), NUM_TOKENS, last_chunk=None, at_checkpoint=True)

    plan = cache.plan(pack([*stored[:40], *[2] * 60]), boundary_ids=frozenset())

    assert (plan.num_matched, plan.num_cached) == (40, 0)
    assert plan.checkpoint_positions == (40, 99)


def test_state_of_the_last_restored_prompt_is_evicted_last() -> None:
    index, cache = new_cache()
    first, second = (pack([token] * NUM_TOKENS) for token in (1, 2))
    for tokens in (first, second):
        cache.store(computed(tokens), NUM_TOKENS, last_chunk=None, at_checkpoint=True)

    plan = cache.plan(pack([*first, 9]), boundary_ids=frozenset())
    assert cache.restore(plan, empty_caches(), capacity=0)[0] == NUM_TOKENS
    state_bytes = next(iter(index.chunks())).checkpoints[0].num_bytes
    index.max_bytes = int(1.5 * state_bytes / MAX_STATE_SHARE)
    index.evict()

    kept = [cache.plan(pack([*tokens, 9]), boundary_ids=frozenset()).num_cached for tokens in (first, second)]
    assert kept == [NUM_TOKENS, 0]
