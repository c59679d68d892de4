"""One prompt's way back from disk to memory: what it wants, record by record as they come.

MLX thread only.
"""

import math
import time
from dataclasses import dataclass

from mlxctl.prefix_cache.disk.encoding import decode
from mlxctl.prefix_cache.disk.header import DamagedRecordError
from mlxctl.prefix_cache.disk.reader import Arrival, Fetch
from mlxctl.prefix_cache.disk.stored import Stored, name_in_header
from mlxctl.prefix_cache.disk.tier import DiskTier
from mlxctl.prefix_cache.entries import Checkpoint, Chunk, Match
from mlxctl.prefix_cache.index import PrefixIndex
from mlxctl.prefix_cache.packing import Record, unpack_record
from mlxctl.prefix_cache.records import CacheLayout, StateRecord
from mlxctl.prefix_cache.splitting import divide_record


@dataclass(frozen=True, slots=True)
class Wanted:
    """A record on disk: that of a chunk, or of the state at `position` in it."""

    chunk: Chunk[Stored]
    stored: Stored
    position: int | None = None


class Promotion:
    """Publishes records in memory as they arrive from disk.

    What cannot be used is dropped on disk, and ends it.
    """

    def __init__(
        self,
        tier: DiskTier,
        index: PrefixIndex[Record],
        layout: CacheLayout,
        *,
        match: Match[Stored],
        wanted: list[Wanted],
    ) -> None:
        self._tier = tier
        self._index = index
        self._layout = layout
        self._match = match
        self._wanted = wanted
        self._is_done = False
        tier.index.lease(match)
        self.fetch: Fetch = tier.fetch([want.stored for want in wanted])

    def take(self, arrival: Arrival) -> bool:
        """Take the next record; return whether nothing more is to come."""
        if self._is_done:
            return False
        want = self._wanted[arrival.place]
        if arrival.failure is not None:
            self._spoil(want, arrival.failure)
        else:
            self._take(want, arrival.data)
        if arrival.place == len(self._wanted) - 1:
            self.end()
        return self._is_done

    def end(self) -> None:
        """Want nothing more. What has come stays in memory."""
        if not self._is_done:
            self._is_done = True
            self.fetch.is_cancelled = True
            self._tier.index.release(self._match)

    def _take(self, want: Wanted, data: bytes) -> None:
        try:
            record = decode(data, chunk=name_in_header(want.chunk, want.position), position=want.position)
        except DamagedRecordError as error:
            self._spoil(want, str(error))
            return
        if not self._fits(want, record):
            self._spoil(want, "it is of another model")
        elif not self._publish(want, record):
            self.end()

    def _spoil(self, want: Wanted, reason: str) -> None:
        self._tier.invalidate(want.chunk, want.position, reason)
        self.end()

    def _fits(self, want: Wanted, record: Record) -> bool:
        if (want.position is None) == isinstance(record, StateRecord):
            return False
        whole = record if isinstance(record, StateRecord) else unpack_record(record)
        return self._layout.accepts(whole, want.chunk.num_tokens)

    def _publish(self, want: Wanted, record: Record) -> bool:
        """Put the record into memory; False when there is no room for it, or none any more for what it builds
        on.
        """
        chunk = want.chunk
        parent = self._index.find(chunk.parent.key) if chunk.parent is not None else None
        if parent is None and chunk.parent is not None:
            return False
        if want.position is not None:
            held = self._index.covering(chunk.namespace, parent, chunk.tokens, chunk.salts)
            if held is None:
                return False
            self._index.add_checkpoint(held, Checkpoint(want.position, record, record.num_bytes))
        else:
            ttl = None if chunk.expires_at == math.inf else max(0.0, chunk.expires_at - time.time())
            offer = self._index.offer(chunk.namespace, parent, chunk.tokens, chunk.salts)
            rest = divide_record(record, offer.num_tokens)[1] if offer.num_tokens else record
            published = self._index.publish(
                chunk.namespace,
                parent,
                chunk.tokens,
                rest,
                rest.num_bytes,
                chunk.salts,
                offer=offer,
                ttl_seconds=ttl,
            )
            if published is None:
                return False
            held = published
        if not self._index.holds(held):
            return False
        self._index.touch(held, ttl_seconds=0)
        return True
