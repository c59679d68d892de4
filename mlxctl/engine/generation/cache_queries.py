"""Answers questions about the prefix cache, between steps: what is kept where, in pages; pin, unpin, drop.

MLX thread only.
"""

import math
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from mlxctl.engine.memory import EngineMemory
from mlxctl.engine.wire.messages import AskCache, CacheAnswer, CachedChunk
from mlxctl.prefix_cache.entries import Chunk
from mlxctl.prefix_cache.index import PrefixIndex

MAX_PAGE_CHUNKS = 1000
"""A page of so many chunks is about a megabyte."""


class CacheQueries:
    """The cache of all models in a pool, in memory and on disk, as one."""

    def __init__(self, pool: EngineMemory) -> None:
        self._pool = pool

    def answer(self, asked: AskCache) -> CacheAnswer:
        """Do what was asked and say what came of it. Takes milliseconds."""
        match asked.action:
            case "list":
                return self._page(asked)
            case "clear":
                self._pool.release_working_caches()
                num_changed = self._pool.prefixes.clear() + (
                    self._pool.disk.clear() if self._pool.disk is not None else 0
                )
            case "gc":
                num_changed = sum(index.expire() for index in self._indexes())
                self._pool.trim()
            case "drop":
                self._pool.release_working_caches()
                num_changed = sum(index.drop(key) for index in self._indexes() for key in asked.keys)
            case "pin" | "unpin":
                num_changed = sum(self._mark(key, asked.action == "pin") for key in asked.keys)
        return CacheAnswer(token=asked.token, num_chunks=self._num_chunks(), num_changed=num_changed)

    def _page(self, asked: AskCache) -> CacheAnswer:
        names = self._pool.model_names()
        limit = min(asked.limit, MAX_PAGE_CHUNKS)
        chunks = [
            self._described(chunk, names)
            for chunk in islice(self._chunks(), asked.offset, asked.offset + limit)
        ]
        return CacheAnswer(token=asked.token, num_chunks=self._num_chunks(), chunks=chunks)

    def _chunks(self) -> Iterator[Chunk[Any]]:
        """All chunks: those in memory, then those that are only on disk."""
        yield from self._pool.prefixes.chunks()
        if self._pool.disk is not None:
            yield from (
                chunk
                for chunk in self._pool.disk.index.chunks()
                if self._pool.prefixes.find(chunk.key) is None
            )

    def _num_chunks(self) -> int:
        return sum(1 for _ in self._chunks())

    def _described(self, chunk: Chunk[Any], names: dict[bytes, str]) -> CachedChunk:
        here = self._pool.prefixes.find(chunk.key)
        there = self._pool.disk.index.find(chunk.key) if self._pool.disk is not None else None
        return CachedChunk(
            key=chunk.key,
            parent=chunk.parent.key if chunk.parent is not None else b"",
            namespace=chunk.namespace,
            model=names.get(chunk.namespace, ""),
            start=chunk.start,
            tokens=chunk.tokens,
            memory_bytes=_num_bytes(here),
            disk_bytes=_num_bytes(there),
            checkpoints=sorted(checkpoint.position for checkpoint in chunk.checkpoints),
            num_hits=chunk.num_hits,
            used_at=chunk.used_at,
            expires_at=None if chunk.expires_at == math.inf else chunk.expires_at,
            is_pinned=any(found is not None and found.is_pinned for found in (here, there)),
            num_leases=chunk.num_leases,
            salts=list(chunk.salts),
        )

    def _mark(self, key: bytes, is_pinned: bool) -> bool:
        prefixes, disk = self._pool.prefixes, self._pool.disk
        done = prefixes.pin(key) if is_pinned else prefixes.unpin(key)
        if disk is not None:
            done = (disk.pin(key) if is_pinned else disk.unpin(key)) or done
        return done

    def _indexes(self) -> Iterable[PrefixIndex[Any]]:
        return (
            (self._pool.prefixes, self._pool.disk.index)
            if self._pool.disk is not None
            else (self._pool.prefixes,)
        )


def _num_bytes(chunk: Chunk[Any] | None) -> int:
    """What a chunk holds: what siblings share is told for one of them, so that all together are what is held."""
    if chunk is None:
        return 0
    stems = sum(stem.num_bytes for stem in chunk.shared_segments if stem.owners[0] is chunk)
    states = sum(state.num_bytes for state in chunk.checkpoints if state.owners[0] is chunk)
    return chunk.payload_bytes + stems + states
