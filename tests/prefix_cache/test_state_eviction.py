"""Eviction of layer states that prompts were restored from."""

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


def test_state_of_the_last_restored_prompt_is_evicted_last() -> None:
    index: PrefixIndex[Record] = PrefixIndex(max_bytes=1 << 30, buffers_of=lambda record: record.num_buffers)
    cache = PrefixCache(
        index, storage=StorageFormat(namespace=b"weights"), layout=CacheLayout(empty_caches())
    )
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
