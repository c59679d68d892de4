"""Prefix cache of one model: plans, restores and stores prompt prefixes.

MLX thread only. Policy:

- Everything computed is stored: full chunks during prefill and decoding, the partial chunk and the layer
  states at checkpoints. Stored records are immutable and shared; a sequence computes in its own caches.
- The longest stored prefix of at least MIN_REUSE_TOKENS tokens is restored: to the token in models whose
  layers can all be cut, else up to the last checkpoint.
- A record keeps the precision in which it was stored. A prompt restores records that are at least as exact as
  those that would be stored for it now: their chunks are in other namespaces of the same model.
- A failure in this package is a miss, logged once, never an error of the request: `restore` and `store` catch
  every exception.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, get_args

from mlxctl.ir.tokens import Salt, Tokens
from mlxctl.prefix_cache.checkpoints import surplus
from mlxctl.prefix_cache.chunks import CHUNK_TOKENS
from mlxctl.prefix_cache.disk.promotion import Promotion, RecordRequest
from mlxctl.prefix_cache.disk.tier import DiskTier
from mlxctl.prefix_cache.entries import Checkpoint, Chunk, PrefixMatch
from mlxctl.prefix_cache.index import PrefixIndex
from mlxctl.prefix_cache.packing import Packing, Record, pack_record, unpack_record
from mlxctl.prefix_cache.policy import MIN_REUSE_TOKENS, UNLIMITED_LIFETIME, EvictionReason, Lifetime
from mlxctl.prefix_cache.records import CacheLayout, KVRecord, StateRecord
from mlxctl.prefix_cache.restore_plan import HitKind, RestorePlan, make_plan, usable_part

_log = logging.getLogger(__name__)

P = TypeVar("P")


@dataclass(slots=True)
class CacheCounters:
    """Totals of a prefix cache since it was created."""

    hits: dict[str, int] = field(default_factory=lambda: dict.fromkeys(get_args(HitKind), 0))
    num_tokens_reused: int = 0
    num_promotions: int = 0
    num_failures: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageFormat:
    """Packing of new records, and the namespace of their chunks.

    `readable` are other namespaces of the model with records that are at least as exact.
    """

    namespace: bytes
    packing: Packing | None = None
    readable: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputedTokens:
    """A sequence's first tokens, with the caches in which they were computed.

    `caches` has one object per layer; `row` selects one row of a batch's caches. `storage` is the format in
    which the sequence was restored; None is the format in force.
    """

    tokens: Tokens
    caches: list[Any]
    row: int | None = None
    salts: Sequence[Salt] = ()
    lifetime: Lifetime = UNLIMITED_LIFETIME
    storage: StorageFormat | None = None


class PrefixCache:
    """Prefixes of one model; index and disk tier serve all models.

    `storage` may be replaced at any time; a sequence stores in the format in which it was restored.
    """

    def __init__(
        self,
        index: PrefixIndex[Record],
        *,
        storage: StorageFormat,
        layout: CacheLayout,
        disk: DiskTier | None = None,
    ) -> None:
        self._index = index
        self._disk = disk
        self.storage = storage
        self._layout = layout
        self.counters = CacheCounters()

    @property
    def has_states(self) -> bool:
        """Whether some layers can only be restored at checkpoints."""
        return self._layout.has_states

    def is_cacheable(self, num_tokens: int) -> bool:
        """Whether a prefix of this length is stored."""
        return num_tokens >= MIN_REUSE_TOKENS and self._index.max_bytes > 0

    def plan(
        self, tokens: Tokens, *, boundary_ids: frozenset[int], salts: Sequence[Salt] = ()
    ) -> RestorePlan:
        """Match a prompt and return what can be restored of it.

        Its last token never is. `boundary_ids` are the tokens that end a message, `salts` those of the
        prompt.
        """
        match = self._match(self._index, tokens, salts)
        return make_plan(match, tokens, boundary_ids=boundary_ids, has_states=self.has_states)

    def eviction_reason(self, tokens: Tokens, plan: RestorePlan) -> EvictionReason | None:
        """Return why the chunk after the match was removed, if any was."""
        return self._index.eviction_reason(self.storage.namespace, plan.match, tokens)

    def num_on_disk(self, tokens: Tokens, salts: Sequence[Salt] = ()) -> int:
        """Return how many tokens of a prompt could be restored from disk."""
        if self._disk is None:
            return 0
        match = self._match(self._disk.index, tokens, salts)
        return usable_part(match, len(tokens) - 1, has_states=self.has_states)[0]

    def promote(self, tokens: Tokens, plan: RestorePlan, salts: Sequence[Salt] = ()) -> Promotion | None:
        """Start to copy from disk what the plan lacks; None if nothing.

        The caller makes a new plan when the promotion is done.
        """
        if self._disk is None:
            return None
        match = self._match(self._disk.index, tokens, salts)
        num_cached, chunks, checkpoint = usable_part(match, len(tokens) - 1, has_states=self.has_states)
        if num_cached < plan.num_cached + MIN_REUSE_TOKENS:
            return None
        path = [chunk for chunk in chunks if chunk.start < num_cached]
        requests = [
            RecordRequest(chunk, chunk.payload) for chunk in path if self._index.find(chunk.key) is None
        ]
        if checkpoint is not None:
            requests.append(RecordRequest(path[-1], checkpoint.payload, checkpoint.position))
        if not requests:
            return None
        self.counters.num_promotions += 1
        self._disk.touch(path[-1].key)
        return Promotion(self._disk, self._index, self._layout, match=match, requests=requests)

    def restore(
        self,
        plan: RestorePlan,
        caches: list[Any],
        *,
        capacity: int,
        lifetime: Lifetime = UNLIMITED_LIFETIME,
        is_lazy: bool = False,
    ) -> "tuple[int, Chunk[Record] | None]":
        """Fill empty caches with the planned tokens.

        Returns the number of restored tokens and the last full chunk. The chunk is None if it is in another
        namespace than that of new records. The caches get room for `capacity` tokens, the used chunks the
        `lifetime`. With `is_lazy` the copy is not evaluated yet. After a failure the number is 0 and the
        caches are in an undefined state.
        """
        num_cached = plan.num_cached
        chunks = [chunk for chunk in plan.chunks if chunk.start < num_cached]
        if num_cached:
            self._index.lease(plan.match)
            try:
                records = [
                    unpack_record(payload)
                    for chunk in chunks
                    for position, payload in chunk.payloads()
                    if position < num_cached
                ]
                state = _state_of(plan.checkpoint)
                self._layout.restore(caches, records, num_cached, state, capacity=capacity, is_lazy=is_lazy)
                self._touch_path(chunks[-1], lifetime)
                if plan.checkpoint is not None:
                    self._index.touch_state(plan.checkpoint)
                for chunk in chunks:
                    chunk.num_hits += 1
            except Exception:
                self._log_failure("restoring")
                return 0, None
            finally:
                self._index.release(plan.match)
        self._count_hit(plan.hit, num_cached)
        return num_cached, self._last_full(chunks, num_cached)

    def record_reuse(
        self, plan: RestorePlan, num_tokens: int, *, lifetime: Lifetime = UNLIMITED_LIFETIME
    ) -> "Chunk[Record] | None":
        """Count the hit of a sequence that continues in a working cache.

        That cache holds `num_tokens`, at least the planned ones; nothing is copied. Returns what `restore`
        does.
        """
        for chunk in plan.chunks:
            chunk.num_hits += 1
        if plan.chunks:
            self._touch_path(plan.chunks[-1], lifetime)
        self._count_hit(plan.hit if plan.num_cached else "prefix", num_tokens)
        return self._last_full(plan.chunks, num_tokens)

    def store(
        self,
        computed: ComputedTokens,
        num_tokens: int,
        *,
        last_chunk: "Chunk[Record] | None",
        at_checkpoint: bool,
    ) -> "Chunk[Record] | None":
        """Store the first `num_tokens` of the computed tokens.

        Those up to the full chunk `last_chunk` are stored already. With `at_checkpoint` the partial chunk and
        the layer states at `num_tokens` are stored, too. Returns the last full chunk that is stored now.
        """
        if not self.is_cacheable(num_tokens):
            return last_chunk
        try:
            return self._store(computed, num_tokens, last_chunk, at_checkpoint=at_checkpoint)
        except Exception:
            self._log_failure("storing")
            return last_chunk

    def _store(
        self,
        computed: ComputedTokens,
        num_tokens: int,
        last_full: "Chunk[Record] | None",
        *,
        at_checkpoint: bool,
    ) -> "Chunk[Record] | None":
        chunk = last_full
        start = last_full.end if last_full is not None else 0
        while start + CHUNK_TOKENS <= num_tokens or (at_checkpoint and start < num_tokens):
            end = min(start + CHUNK_TOKENS, num_tokens)
            chunk = self._store_chunk(computed, end, last_full)
            if chunk is None:
                return last_full
            start = end
            if end % CHUNK_TOKENS == 0 and chunk.num_tokens == CHUNK_TOKENS:
                last_full = chunk
        if at_checkpoint and chunk is not None:
            self._store_states(computed, num_tokens, chunk)
        if chunk is not None and self._index.contains(chunk):
            self._touch_path(chunk, computed.lifetime)
        return last_full

    def _store_chunk(
        self, computed: ComputedTokens, end: int, parent: "Chunk[Record] | None"
    ) -> "Chunk[Record] | None":
        """Store the tokens after `parent` up to `end` as one chunk.

        Tokens whose payload is stored already are not copied.
        """
        storage = computed.storage or self.storage
        start = parent.end if parent is not None else 0
        piece = computed.tokens[start:end].tobytes()
        stored = self._index.covering(storage.namespace, parent, piece, computed.salts)
        if stored is not None:
            return stored
        if not self._index.reserve(self._layout.cut_bytes(computed.caches, end - start)):
            return None
        reused = self._index.reusable_prefix(storage.namespace, parent, piece, computed.salts)
        exact = self._layout.cut(computed.caches, start + reused.num_tokens, end, row=computed.row)
        record = _packed(exact, start, storage.packing)
        return self._index.publish(
            storage.namespace,
            parent,
            piece,
            record,
            record.num_bytes,
            computed.salts,
            reused=reused,
            ttl_seconds=computed.lifetime.chunk_ttl(start),
        )

    def _store_states(self, computed: ComputedTokens, num_tokens: int, chunk: Chunk[Record]) -> None:
        if not (self._layout.has_states and chunk.start < num_tokens <= chunk.end):
            return
        if self._index.reserve(self._layout.snapshot_bytes(computed.caches, row=computed.row)):
            state = self._layout.snapshot(computed.caches, row=computed.row)
            self._index.add_checkpoint(chunk, Checkpoint(num_tokens, state, state.num_bytes))
            self._drop_surplus_checkpoints(chunk)

    def _touch_path(self, chunk: Chunk[Record], lifetime: Lifetime) -> None:
        """Make a chunk's path the most recently used; extend its lifetime."""
        self._index.touch(chunk, ttl_seconds=lifetime.chunk_ttl(chunk.start))
        if lifetime.num_long_ttl_tokens:
            long_lived = (other for other in chunk.ancestors() if other.start < lifetime.num_long_ttl_tokens)
            last = next(long_lived, None)
            if last is not None and last is not chunk:
                self._index.touch(last, ttl_seconds=lifetime.long_ttl_seconds)

    def _match(self, index: PrefixIndex[P], tokens: Tokens, salts: Sequence[Salt]) -> PrefixMatch[P]:
        """Return the match that restores most, in any readable namespace.

        Of equally long matches, the one in the namespace of new records is returned.
        """
        matches = [
            index.match(namespace, tokens, salts)
            for namespace in (self.storage.namespace, *self.storage.readable)
        ]
        if len(matches) == 1:
            return matches[0]
        return max(
            matches,
            key=lambda match: usable_part(match, len(tokens) - 1, has_states=self.has_states)[0],
        )

    def _last_full(self, chunks: "Sequence[Chunk[Record]]", num_tokens: int) -> "Chunk[Record] | None":
        full = [chunk for chunk in chunks if chunk.num_tokens == CHUNK_TOKENS and chunk.end <= num_tokens]
        return full[-1] if full and full[-1].namespace == self.storage.namespace else None

    def _drop_surplus_checkpoints(self, chunk: Chunk[Record]) -> None:
        checkpoints = {
            checkpoint.position: (owner, checkpoint)
            for owner in chunk.ancestors()
            for checkpoint in owner.checkpoints
        }
        for position in surplus(checkpoints):
            self._index.drop_checkpoint(*checkpoints[position])

    def _count_hit(self, hit: HitKind, num_tokens: int) -> None:
        self.counters.hits[hit] += 1
        self.counters.num_tokens_reused += num_tokens

    def _log_failure(self, what: str) -> None:
        self.counters.num_failures += 1
        if self.counters.num_failures == 1:
            _log.exception("prefix cache: %s failed; it counts as a miss; logged only this once", what)


def _packed(record: KVRecord, start: int, packing: Packing | None) -> Record:
    if packing is None or start < packing.exact_tokens:
        return record
    return pack_record(record, packing.bits, group_size=packing.group_size)


def _state_of(checkpoint: Checkpoint[Record] | None) -> StateRecord | None:
    return (
        checkpoint.payload if checkpoint is not None and isinstance(checkpoint.payload, StateRecord) else None
    )
