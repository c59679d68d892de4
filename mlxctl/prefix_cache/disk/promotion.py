"""Promotion: copy of a prompt's records from disk to memory.

MLX thread only.
"""

import math
import time
from dataclasses import dataclass

from mlxctl.prefix_cache.disk.encoding import decode
from mlxctl.prefix_cache.disk.header import DamagedRecordError
from mlxctl.prefix_cache.disk.reader import Fetch, FetchedRecord
from mlxctl.prefix_cache.disk.stored import StoredRecord, name_in_header
from mlxctl.prefix_cache.disk.tier import DiskTier
from mlxctl.prefix_cache.entries import Checkpoint, Chunk, PrefixMatch
from mlxctl.prefix_cache.index import PrefixIndex
from mlxctl.prefix_cache.packing import Record, unpack_record
from mlxctl.prefix_cache.records import CacheLayout, StateRecord
from mlxctl.prefix_cache.splitting import split_record


@dataclass(frozen=True, slots=True)
class RecordRequest:
    """A record to read.

    Keys and values of a chunk, or a state at `position`.
    """

    chunk: Chunk[StoredRecord]
    stored: StoredRecord
    position: int | None = None


class Promotion:
    """Publishes records in memory as the reader delivers them.

    The chunks on disk are leased until it ends. A damaged or foreign record is dropped on disk and ends it.
    """

    def __init__(
        self,
        tier: DiskTier,
        index: PrefixIndex[Record],
        layout: CacheLayout,
        *,
        match: PrefixMatch[StoredRecord],
        requests: list[RecordRequest],
    ) -> None:
        self._tier = tier
        self._index = index
        self._layout = layout
        self._match = match
        self._requests = requests
        self._is_done = False
        tier.index.lease(match)
        self.fetch: Fetch = tier.fetch([request.stored for request in requests])

    def take(self, fetched: FetchedRecord) -> bool:
        """Publish the next record; return whether the promotion has ended."""
        if self._is_done:
            return False
        request = self._requests[fetched.index]
        if fetched.failure is not None:
            self._invalidate(request, fetched.failure)
        else:
            self._accept(request, fetched.data)
        if fetched.index == len(self._requests) - 1:
            self.end()
        return self._is_done

    def end(self) -> None:
        """End the promotion early; published records stay in memory."""
        if not self._is_done:
            self._is_done = True
            self.fetch.is_cancelled = True
            self._tier.index.release(self._match)

    def _accept(self, request: RecordRequest, data: bytes) -> None:
        try:
            record = decode(
                data, chunk=name_in_header(request.chunk, request.position), position=request.position
            )
        except DamagedRecordError as error:
            self._invalidate(request, str(error))
            return
        if not self._is_compatible(request, record):
            self._invalidate(request, "it belongs to another model")
        elif not self._publish(request, record):
            self.end()

    def _invalidate(self, request: RecordRequest, reason: str) -> None:
        self._tier.invalidate(request.chunk, request.position, reason)
        self.end()

    def _is_compatible(self, request: RecordRequest, record: Record) -> bool:
        if (request.position is None) == isinstance(record, StateRecord):
            return False
        unpacked = record if isinstance(record, StateRecord) else unpack_record(record)
        return self._layout.accepts(unpacked, request.chunk.num_tokens)

    def _publish(self, request: RecordRequest, record: Record) -> bool:
        """Publish a record in memory.

        False if it, or its parent, has no room.
        """
        chunk = request.chunk
        parent = self._index.find(chunk.parent.key) if chunk.parent is not None else None
        if parent is None and chunk.parent is not None:
            return False
        if request.position is not None:
            stored_chunk = self._index.covering(chunk.namespace, parent, chunk.tokens, chunk.salts)
            if stored_chunk is None:
                return False
            self._index.add_checkpoint(stored_chunk, Checkpoint(request.position, record, record.num_bytes))
        else:
            ttl = None if chunk.expires_at == math.inf else max(0.0, chunk.expires_at - time.time())
            reused = self._index.reusable_prefix(chunk.namespace, parent, chunk.tokens, chunk.salts)
            rest = split_record(record, reused.num_tokens)[1] if reused.num_tokens else record
            published = self._index.publish(
                chunk.namespace,
                parent,
                chunk.tokens,
                rest,
                rest.num_bytes,
                chunk.salts,
                reused=reused,
                ttl_seconds=ttl,
            )
            if published is None:
                return False
            stored_chunk = published
        if not self._index.contains(stored_chunk):
            return False
        self._index.touch(stored_chunk, ttl_seconds=0)
        return True
