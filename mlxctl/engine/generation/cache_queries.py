"""Queries and changes of the prefix cache, between steps. MLX thread only."""

import math
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from mlxctl.engine.memory import EngineMemory
from mlxctl.engine.wire.commands import AskCache
from mlxctl.engine.wire.reports import CacheAnswer, CachedChunk
from mlxctl.prefix_cache.entries import Chunk
from mlxctl.prefix_cache.index import PrefixIndex

MAX_PAGE_CHUNKS = 1000
"""Chunks of one page, which takes about a megabyte."""


class CacheQueries:
    """Answers queries about the prefix cache of all models, on both tiers."""

    def __init__(self, memory: EngineMemory) -> None:
        self._memory = memory
        self._prefixes = memory.prefixes

    def answer(self, query: AskCache) -> CacheAnswer:
        """Carry out a query. Takes milliseconds."""
        match query.action:
            case "list":
                return self._page(query)
            case "clear":
                self._memory.release_working_caches()
                num_changed = self._prefixes.index.clear() + (
                    self._prefixes.disk.clear() if self._prefixes.disk is not None else 0
                )
            case "gc":
                num_changed = sum(index.expire() for index in self._indexes())
                self._memory.trim()
            case "drop":
                self._memory.release_working_caches()
                num_changed = sum(index.drop(key) for index in self._indexes() for key in query.keys)
            case "pin" | "unpin":
                num_changed = sum(self._mark(key, query.action == "pin") for key in query.keys)
        return CacheAnswer(token=query.token, num_chunks=self._num_chunks(), num_changed=num_changed)

    def _page(self, query: AskCache) -> CacheAnswer:
        names = self._prefixes.model_names
        limit = min(query.limit, MAX_PAGE_CHUNKS)
        chunks = [
            self._described(chunk, names)
            for chunk in islice(self._chunks(), query.offset, query.offset + limit)
        ]
        return CacheAnswer(token=query.token, num_chunks=self._num_chunks(), chunks=chunks)

    def _chunks(self) -> Iterator[Chunk[Any]]:
        """All chunks: those in memory, then those that are only on disk."""
        yield from self._prefixes.index.chunks()
        if self._prefixes.disk is not None:
            yield from (
                chunk
                for chunk in self._prefixes.disk.index.chunks()
                if self._prefixes.index.find(chunk.key) is None
            )

    def _num_chunks(self) -> int:
        return sum(1 for _ in self._chunks())

    def _described(self, chunk: Chunk[Any], names: dict[bytes, str]) -> CachedChunk:
        here = self._prefixes.index.find(chunk.key)
        there = self._prefixes.disk.index.find(chunk.key) if self._prefixes.disk is not None else None
        return CachedChunk(
            key=chunk.key,
            parent=chunk.parent.key if chunk.parent is not None else b"",
            namespace=chunk.namespace,
            model=names.get(chunk.namespace, ""),
            start=chunk.start,
            tokens=chunk.tokens,
            memory_bytes=here.num_bytes if here is not None else 0,
            disk_bytes=there.num_bytes if there is not None else 0,
            checkpoints=sorted(checkpoint.position for checkpoint in chunk.checkpoints),
            num_hits=chunk.num_hits,
            used_at=chunk.used_at,
            expires_at=None if chunk.expires_at == math.inf else chunk.expires_at,
            is_pinned=any(found is not None and found.is_pinned for found in (here, there)),
            num_leases=chunk.num_leases,
            salts=list(chunk.salts),
        )

    def _mark(self, key: bytes, is_pinned: bool) -> bool:
        index, disk = self._prefixes.index, self._prefixes.disk
        done = index.pin(key) if is_pinned else index.unpin(key)
        if disk is not None:
            done = (disk.pin(key) if is_pinned else disk.unpin(key)) or done
        return done

    def _indexes(self) -> Iterable[PrefixIndex[Any]]:
        return (
            (self._prefixes.index, self._prefixes.disk.index)
            if self._prefixes.disk is not None
            else (self._prefixes.index,)
        )
