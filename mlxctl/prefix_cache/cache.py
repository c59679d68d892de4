"""The facade that the engine calls: plan, restore, remember. MLX thread only.

A failure in here is a miss, logged once, and never an error: restoring and remembering catch broadly, and
nothing else in the house does. What a sequence has in its working caches is its own; what is kept is
immutable and shared.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import numpy as np

from mlxctl.ir.tokens import Salt, Tokens
from mlxctl.prefix_cache.checkpoints import planned_positions, surplus
from mlxctl.prefix_cache.chunks import CHUNK_TOKENS
from mlxctl.prefix_cache.disk.promotion import Promotion, RecordRequest
from mlxctl.prefix_cache.disk.tier import DiskTier
from mlxctl.prefix_cache.entries import Checkpoint, Chunk, PrefixMatch
from mlxctl.prefix_cache.eviction_reasons import EvictionReason
from mlxctl.prefix_cache.index import PrefixIndex
from mlxctl.prefix_cache.lifetime import UNLIMITED_LIFETIME, Lifetime
from mlxctl.prefix_cache.packing import Packing, Record, pack_record, unpack_record
from mlxctl.prefix_cache.records import CacheLayout, KVRecord, StateRecord

HitKind = Literal["exact", "prefix", "common_prefix", "checkpoint", "miss"]
P = TypeVar("P")

# Below this a copy costs more than reading the tokens again.
_MIN_TOKENS = 16

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePlan:
    """What is known of a prompt: how many tokens can be taken over, from which chunks and state, and where to
    keep new states.
    """

    match: PrefixMatch[Record]
    chunks: tuple[Chunk[Record], ...]
    checkpoint: Checkpoint[Record] | None
    num_cached: int
    hit: HitKind
    checkpoint_positions: tuple[int, ...]

    @property
    def num_matched(self) -> int:
        """How many tokens of the prompt are known; more than `num_cached` where the state to go on with is
        missing.
        """
        return self.match.num_tokens


@dataclass(slots=True)
class CacheCounters:
    """What the cache did since it was made."""

    hits: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("exact", "prefix", "common_prefix", "checkpoint", "miss"), 0)
    )
    num_tokens_reused: int = 0
    num_promotions: int = 0
    num_failures: int = 0


class PrefixCache:
    """What one model has already computed, in an index, and a disk, that all models share."""

    def __init__(
        self,
        index: PrefixIndex[Record],
        *,
        namespace: bytes,
        layout: CacheLayout,
        disk: DiskTier | None = None,
        packing: Packing | None = None,
    ) -> None:
        self._index = index
        self._disk = disk
        self._packing = packing
        self._namespace = namespace
        self._layout = layout
        self.counters = CacheCounters()

    @property
    def has_states(self) -> bool:
        """Whether some layers can only be taken up where their state was kept."""
        return self._layout.has_states

    def is_cacheable(self, num_tokens: int) -> bool:
        """Whether a prompt of so many tokens is kept once it has been read."""
        return num_tokens >= _MIN_TOKENS and self._index.max_bytes > 0

    def plan(
        self, tokens: Tokens, *, boundary_ids: frozenset[int], salts: Sequence[Salt] = ()
    ) -> RestorePlan:
        """Look up the longest usable prefix of a prompt; its last token is always left to be run.

        `salts` are its images.
        """
        most = len(tokens) - 1
        match = self._index.match(self._namespace, tokens, salts)
        num_cached, chunks, checkpoint = self._usable(match, most)
        if num_cached < _MIN_TOKENS:
            num_cached, chunks, checkpoint = 0, (), None
        checkpoint_positions: list[int] = []
        if self._layout.has_states:
            checkpoint_positions = planned_positions(
                num_prompt_tokens=len(tokens),
                boundaries=_boundaries(tokens, boundary_ids),
                branch=match.num_tokens if match.num_tokens - num_cached >= _MIN_TOKENS else None,
                num_cached=num_cached,
            )
        hit = self._classify(match, num_cached, most)
        return RestorePlan(
            match=match,
            chunks=chunks,
            checkpoint=checkpoint,
            num_cached=num_cached,
            hit=hit,
            checkpoint_positions=tuple(checkpoint_positions),
        )

    def eviction_reason(self, tokens: Tokens, plan: RestorePlan) -> EvictionReason | None:
        """Why what was known beyond the plan is not there any more."""
        return self._index.eviction_reason(self._namespace, plan.match, tokens)

    def num_on_disk(self, tokens: Tokens, salts: Sequence[Salt] = ()) -> int:
        """Return how many tokens of a prompt could be brought back from disk."""
        if self._disk is None:
            return 0
        num_tokens, _, _ = self._usable(
            self._disk.index.match(self._namespace, tokens, salts), len(tokens) - 1
        )
        return num_tokens

    def promote(self, tokens: Tokens, plan: RestorePlan, salts: Sequence[Salt] = ()) -> Promotion | None:
        """Begin to bring back from disk what it has beyond the plan; None when that is nothing.

        Make a new plan when it is done.
        """
        if self._disk is None:
            return None
        match = self._disk.index.match(self._namespace, tokens, salts)
        num_cached, chunks, checkpoint = self._usable(match, len(tokens) - 1)
        if num_cached < plan.num_cached + _MIN_TOKENS:
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
        """Fill fresh caches with what the plan found; return how many tokens they hold now and the last full
        chunk of these.

        They get room for `capacity` tokens. What was used lives on for its `lifetime`. With `is_lazy` the
        copy is made when it is used. After a failure nothing is held, and the caches are in no usable state.
        """
        num_cached = plan.num_cached
        chunks = [chunk for chunk in plan.chunks if chunk.start < num_cached]
        if num_cached:
            self._index.lease(plan.match)
            try:
                held = [
                    payload for chunk in chunks for place, payload in chunk.payloads() if place < num_cached
                ]
                records = [unpack_record(payload) for payload in held]
                self._layout.restore(
                    caches,
                    records,
                    num_cached,
                    _state_of(plan.checkpoint),
                    capacity=capacity,
                    is_lazy=is_lazy,
                )
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
        return num_cached, _last_full(chunks, num_cached)

    def record_reuse(
        self, plan: RestorePlan, num_tokens: int, *, lifetime: Lifetime = UNLIMITED_LIFETIME
    ) -> "Chunk[Record] | None":
        """Take note that somebody goes on with a cache of his own that holds `num_tokens`, at least what the
        plan found.

        Returns the last full chunk of these that is here.
        """
        for chunk in plan.chunks:
            chunk.num_hits += 1
        if plan.chunks:
            self._touch_path(plan.chunks[-1], lifetime)
        self._count_hit(plan.hit if plan.num_cached else "prefix", num_tokens)
        return _last_full(plan.chunks, num_tokens)

    def _count_hit(self, hit: HitKind, num_tokens: int) -> None:
        self.counters.hits[hit] += 1
        self.counters.num_tokens_reused += num_tokens

    def store(
        self,
        tokens: Tokens,
        num_tokens: int,
        caches: list[Any],
        *,
        row: int | None = None,
        last_chunk: "Chunk[Record] | None",
        at_checkpoint: bool,
        lifetime: Lifetime = UNLIMITED_LIFETIME,
        salts: Sequence[Salt] = (),
    ) -> "Chunk[Record] | None":
        """Keep what the caches hold of the first `num_tokens` tokens, going on after the full chunk `last_chunk`;
        `salts` are images.

        With `at_checkpoint` the place is one to come back to: a partial chunk and the state are kept, too. It lives
        for its `lifetime`, or until it is evicted. Returns the last full chunk that is known now.
        """
        if not self.is_cacheable(num_tokens):
            return last_chunk
        try:
            return self._store(tokens, num_tokens, caches, row, last_chunk, at_checkpoint, lifetime, salts)
        except Exception:
            self._log_failure("remembering")
            return last_chunk

    def _usable(
        self, match: PrefixMatch[P], most: int
    ) -> "tuple[int, tuple[Chunk[P], ...], Checkpoint[P] | None]":
        """How much of a match can be taken over: all of it, or up to the last checkpoint when a layer's state
        is needed.
        """
        if not self._layout.has_states:
            return min(match.num_tokens, most), match.chunks, None
        found = match.checkpoint(at_most=most)
        return (found[0].position, found[1], found[0]) if found is not None else (0, (), None)

    def _store(
        self,
        tokens: Tokens,
        num_tokens: int,
        caches: list[Any],
        row: int | None,
        last_chunk: "Chunk[Record] | None",
        at_checkpoint: bool,
        lifetime: Lifetime,
        salts: Sequence[Salt],
    ) -> "Chunk[Record] | None":
        place = last_chunk
        start = last_chunk.end if last_chunk is not None else 0
        while start + CHUNK_TOKENS <= num_tokens or (at_checkpoint and start < num_tokens):
            end = min(start + CHUNK_TOKENS, num_tokens)
            place = self._store_chunk(tokens[start:end].tobytes(), caches, row, last_chunk, lifetime, salts)
            if place is None:
                return last_chunk
            start = end
            if end % CHUNK_TOKENS == 0 and place.num_tokens == CHUNK_TOKENS:
                last_chunk = place
        if (
            at_checkpoint
            and self._layout.has_states
            and place is not None
            and place.start < num_tokens <= place.end
        ):
            state = self._layout.snapshot(caches, row=row)
            self._index.add_checkpoint(place, Checkpoint(num_tokens, state, state.num_bytes))
            self._drop_surplus_checkpoints(place)
        if place is not None and self._index.contains(place):
            self._touch_path(place, lifetime)
        return last_chunk

    def _store_chunk(
        self,
        piece: bytes,
        caches: list[Any],
        row: int | None,
        last_chunk: "Chunk[Record] | None",
        lifetime: Lifetime,
        salts: Sequence[Salt],
    ) -> "Chunk[Record] | None":
        """Keep a chunk after the full chunk `last_chunk`: of what others have already nothing is copied."""
        start = last_chunk.end if last_chunk is not None else 0
        held = self._index.covering(self._namespace, last_chunk, piece, salts)
        if held is not None:
            return held
        reused = self._index.reusable_prefix(self._namespace, last_chunk, piece, salts)
        cut = self._layout.cut(caches, start + reused.num_tokens, start + len(piece) // 4, row=row)
        record = self._packed(cut, start)
        return self._index.publish(
            self._namespace,
            last_chunk,
            piece,
            record,
            record.num_bytes,
            salts,
            reused=reused,
            ttl_seconds=lifetime.chunk_ttl(start),
        )

    def _touch_path(self, chunk: Chunk[Record], lifetime: Lifetime) -> None:
        """Make the path to the chunk the most recently used, and let each part of it live on."""
        self._index.touch(chunk, ttl_seconds=lifetime.chunk_ttl(chunk.start))
        place: Chunk[Record] | None = chunk if lifetime.num_long_ttl_tokens else None
        while place is not None and place.start >= lifetime.num_long_ttl_tokens:
            place = place.parent
        if place is not None and place is not chunk:
            self._index.touch(place, ttl_seconds=lifetime.long_ttl_seconds)

    def _packed(self, record: KVRecord, start: int) -> Record:
        must_pack = self._packing is not None and start >= self._packing.exact_tokens
        return pack_record(record, self._packing.bits) if must_pack and self._packing is not None else record

    def _drop_surplus_checkpoints(self, chunk: Chunk[Record]) -> None:
        """Keep the checkpoints of the path to `chunk` few and spread."""
        path: list[Chunk[Record]] = []
        place: Chunk[Record] | None = chunk
        while place is not None:
            path.append(place)
            place = place.parent
        held = {
            checkpoint.position: (owner, checkpoint) for owner in path for checkpoint in owner.checkpoints
        }
        for position in surplus(held):
            self._index.drop_checkpoint(*held[position])

    def _classify(self, match: PrefixMatch[Record], num_cached: int, most: int) -> HitKind:
        if not num_cached:
            return "miss"
        if self._layout.has_states:
            return "checkpoint"
        if num_cached == most:
            return "exact"
        return "prefix" if match.num_tokens == match.chunks[-1].end else "common_prefix"

    def _log_failure(self, what: str) -> None:
        self.counters.num_failures += 1
        if self.counters.num_failures == 1:
            _log.exception("prefix cache: %s failed; it counts as a miss, and is logged only this once", what)


def _last_full(chunks: "Sequence[Chunk[Record]]", num_tokens: int) -> "Chunk[Record] | None":
    full = [chunk for chunk in chunks if chunk.num_tokens == CHUNK_TOKENS and chunk.end <= num_tokens]
    return full[-1] if full else None


def _state_of(checkpoint: Checkpoint[Record] | None) -> StateRecord | None:
    return (
        checkpoint.payload if checkpoint is not None and isinstance(checkpoint.payload, StateRecord) else None
    )


def _boundaries(tokens: Tokens, boundary_ids: frozenset[int]) -> list[int]:
    """Positions after the tokens that end a message."""
    return [
        int(place) + 1
        for place in np.flatnonzero(np.isin(np.frombuffer(tokens, dtype=np.uint32), list(boundary_ids)))
    ]
