"""A change of the format in which new records are stored."""

from mlx_lm.models.cache import KVCache

from mlxctl.ir.tokens import pack
from mlxctl.prefix_cache.cache import ComputedTokens, PrefixCache, StorageFormat
from mlxctl.prefix_cache.chunks import CHUNK_TOKENS
from mlxctl.prefix_cache.index import PrefixIndex
from mlxctl.prefix_cache.packing import Record
from mlxctl.prefix_cache.records import CacheLayout

from .test_long_ttl_prefix import filled_caches

PROMPT = pack([20 + place % 400 for place in range(2 * CHUNK_TOKENS)])


def test_prefix_restored_in_an_earlier_format_is_stored_in_the_new_one() -> None:
    index: PrefixIndex[Record] = PrefixIndex(max_bytes=1 << 30, buffers_of=lambda record: record.num_buffers)
    cache = PrefixCache(index, storage=StorageFormat(namespace=b"old"), layout=CacheLayout([KVCache()]))
    computed = ComputedTokens(tokens=PROMPT, caches=filled_caches(len(PROMPT)))
    cache.store(computed, len(PROMPT), last_chunk=None, at_checkpoint=True)
    cache.storage = StorageFormat(namespace=b"new", readable=(b"old",))

    plan = cache.plan(pack([*PROMPT, 9]), boundary_ids=frozenset())
    num_cached, last_chunk = cache.restore(plan, [KVCache()], capacity=0)
    assert num_cached == len(PROMPT)
    cache.store(computed, len(PROMPT), last_chunk=last_chunk, at_checkpoint=True)

    assert index.match(b"new", PROMPT).num_tokens == len(PROMPT)
