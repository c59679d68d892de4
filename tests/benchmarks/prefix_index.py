"""The prefix index without a model, beside mlx-lm's trie."""

import gc
import random
import time
import tracemalloc
from array import array
from collections.abc import Callable, Iterator
from statistics import median

from mlxctl.prefix_cache.chunks import CHUNK_TOKENS
from mlxctl.prefix_cache.entries import Chunk
from mlxctl.prefix_cache.index import PrefixIndex
from tests.benchmarks.rounds import Finding, Ratio

_NUM_ENTRIES = 1000
_ENTRY_TOKENS = 2048
_LONG_TOKENS = 128 * 1024
_NAMESPACE = b"benchmark"
_VOCABULARY = 150_000


def measure(*, rounds: int) -> Iterator[Finding]:
    """Measure a prompt of 128k tokens among 1,000 half-shared entries."""
    from mlx_lm.models.cache import PromptTrie

    entries = _entries()
    index: PrefixIndex[None] = PrefixIndex(max_bytes=1 << 40, split=lambda payload, _: (payload, payload))
    trie = PromptTrie()
    per_token = _bytes_per_token(lambda: [_insert(index, entry) for entry in entries], _num_distinct(entries))
    lists = [list(entry) for entry in entries]
    per_token_trie = _bytes_per_token(
        lambda: [trie.add("model", entry, 0) for entry in lists], _num_distinct(entries)
    )
    inserts, lookups, trie_inserts, trie_lookups = [], [], [], []
    for seed in range(rounds):
        long = _tokens(_LONG_TOKENS, 10_000 + seed)
        as_list = list(long)
        inserts.append(_seconds(lambda long=long: _insert(index, long)))  # type: ignore[misc]
        lookups.append(_seconds(lambda long=long: index.match(_NAMESPACE, long)))  # type: ignore[misc]
        trie_inserts.append(_seconds(lambda as_list=as_list: trie.add("model", as_list, 0)))  # type: ignore[misc]
        trie_lookups.append(_seconds(lambda as_list=as_list: trie.search("model", as_list)))  # type: ignore[misc]
    for name, ours, theirs, bar in (
        ("lookup of 128k tokens among 1,000 entries, ms", lookups, trie_lookups, 2.0),
        ("insert of 128k tokens, ms", inserts, trie_inserts, 10.0),
    ):
        milliseconds = [seconds * 1e3 for seconds in ours]
        ratio = Ratio(median(milliseconds), min(milliseconds), max(milliseconds))
        yield Finding(f"index: {name}", ratio, bar, False, f"mlx-lm's trie: {median(theirs) * 1e3:.1f} ms")
    ratio = Ratio(per_token, per_token, per_token)
    yield Finding(
        "index: bytes a token beyond the payload", ratio, 4.0, False, f"mlx-lm's trie: {per_token_trie:.0f}"
    )


def _entries() -> list["array[int]"]:
    trunk = _tokens(_ENTRY_TOKENS // 2, 0)
    return [trunk + _tokens(_ENTRY_TOKENS // 2, 1 + entry) for entry in range(_NUM_ENTRIES)]


def _num_distinct(entries: list["array[int]"]) -> int:
    return _ENTRY_TOKENS // 2 * (len(entries) + 1)


def _tokens(num: int, seed: int) -> "array[int]":
    generator = random.Random(seed)
    return array("I", (generator.randrange(_VOCABULARY) for _ in range(num)))


def _insert(index: PrefixIndex[None], tokens: "array[int]") -> None:
    """Insert as the cache does: match, then publish chunks, then touch."""
    match = index.match(_NAMESPACE, tokens)
    place: Chunk[None] | None = match.full[-1] if match.full else None
    for start in range(place.end if place else 0, len(tokens), CHUNK_TOKENS):
        piece = tokens[start : start + CHUNK_TOKENS].tobytes()
        reused = index.reusable_prefix(_NAMESPACE, place, piece)
        place = index.publish(_NAMESPACE, place, piece, None, 1, reused=reused)
    assert place is not None
    index.touch(place)


def _bytes_per_token(fill: Callable[[], object], num_tokens: int) -> float:
    gc.collect()
    tracemalloc.start()
    fill()
    gc.collect()
    current, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return current / num_tokens


def _seconds(act: Callable[[], object]) -> float:
    begin = time.perf_counter()
    act()
    return time.perf_counter() - begin
