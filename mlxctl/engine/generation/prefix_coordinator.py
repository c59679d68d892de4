"""What sequences reuse from the prefix cache and store in it.

For one model. MLX thread only.
"""

import contextlib
from collections import abc
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from mlxctl.engine.decoding import caches as kv
from mlxctl.engine.decoding.caches import Caches
from mlxctl.engine.decoding.shared_caches import announce
from mlxctl.engine.generation.prefill_state import PrefillState
from mlxctl.engine.host.failures import FOREIGN_ERRORS
from mlxctl.engine.scheduling.batch import RowResult
from mlxctl.engine.scheduling.sequence import Sequence
from mlxctl.engine.wire.rank_messages import TrimCaches
from mlxctl.ir.cache_usage import CacheUsage
from mlxctl.ir.tokens import Salt, Tokens, common_tokens
from mlxctl.prefix_cache.cache import ComputedTokens, PrefixCache, StorageFormat
from mlxctl.prefix_cache.disk.reader import FetchedRecord
from mlxctl.prefix_cache.policy import UNLIMITED_LIFETIME
from mlxctl.prefix_cache.records import grows, leaves
from mlxctl.prefix_cache.restore_plan import RestorePlan

# Prompts with at most this many tokens left are usually prefilled with others, in one batch.
_BATCHED_PREFILL_TOKENS = 256
# Share of the last conversation that its next turn repeats at least: the rest is thinking, or text that the
# template writes differently.
_MIN_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class PreemptedCaches:
    """The caches of a preempted row, without its last token.

    Nothing is copied when it continues.
    """

    caches: Caches
    storage: StorageFormat | None
    num_bytes: int

    @classmethod
    def of(cls, state: PrefillState, caches: Caches) -> "PreemptedCaches":
        """Take the caches over from their row."""
        kv.evaluate(caches)
        return cls(caches, state.storage, sum(array.nbytes for array in kv.arrays(caches)))


@dataclass(frozen=True, slots=True)
class LastConversation:
    """Caches of the row that finished last, with tokens and salts.

    The prefix cache holds the same tokens, in the format `storage`. A sequence that takes the caches owns
    them; nothing is copied.
    """

    tokens: Tokens
    caches: Caches
    storage: StorageFormat | None
    num_bytes: int
    salts: tuple[Salt, ...] = ()

    @classmethod
    def of(
        cls,
        tokens: Tokens,
        caches: Caches,
        *,
        storage: StorageFormat | None = None,
        salts: tuple[Salt, ...] = (),
    ) -> "LastConversation":
        """Take the caches over from their row."""
        kv.evaluate(caches)
        num_bytes = sum(array.nbytes for array in kv.arrays(caches))
        return cls(tokens, caches, storage, num_bytes, salts)

    def num_usable(self, prompt: Tokens, salts: tuple[Salt, ...] = ()) -> int:
        """Return how many tokens of a prompt the caches hold.

        Without layers that can be trimmed it is all of them or 0. It is 0 as well for a prompt that shares
        little: most of the caches would be lost for their own conversation.
        """
        num_tokens = min(common_tokens(self.tokens, prompt, self.salts, salts), len(prompt) - 1)
        if num_tokens < len(self.tokens) * _MIN_SHARE:
            return 0
        can_be_trimmed = all(grows(layer) for layer in leaves(self.caches))
        return num_tokens if can_be_trimmed or num_tokens == len(self.tokens) else 0

    def take(self, num_tokens: int) -> Caches:
        """Return the caches trimmed to `num_tokens`; they can be taken once."""
        if num_tokens < len(self.tokens):
            num_dropped = len(self.tokens) - num_tokens
            announce(self.caches, lambda number: TrimCaches(caches=number, num_tokens=num_dropped))
            for layer in leaves(self.caches):
                layer.trim(num_dropped)
        return self.caches


class PrefixCoordinator:
    """Restores prompts from memory, disk or the last conversation; stores them.

    The last conversation is the working cache of the row that finished last: its next turn takes it over
    without a copy. Preempted rows keep their caches here until memory is needed; then they are restored like
    prompts.
    """

    def __init__(
        self, prefix_cache: PrefixCache, create_caches: Callable[[], Caches], *, reuses: bool = True
    ) -> None:
        """`create_caches` returns empty caches for one sequence.

        Without `reuses` nothing is restored or stored.
        """
        self._reuses = reuses
        self._prefix_cache = prefix_cache
        self._create_caches = create_caches
        self._restoring: list[PrefillState] = []
        self._last: LastConversation | None = None
        self._preempted: dict[int, PreemptedCaches] = {}

    def look_up(self, tokens: Tokens, salts: abc.Sequence[Salt]) -> CacheUsage:
        """Return what restoring a prompt with these salts would reuse now."""
        return self._usage(tokens, self._prefix_cache.plan(tokens, boundary_ids=frozenset(), salts=salts))

    def num_on_disk(self, tokens: Tokens, salts: abc.Sequence[Salt]) -> int:
        """Return how many tokens of a prompt could be restored from disk."""
        return self._prefix_cache.num_on_disk(tokens, salts)

    def expected_cached_tokens(self, sequence: Sequence) -> int:
        """Return how many tokens of a prompt could be restored now."""
        if sequence.cache_mode == "off" or not self._reuses:
            return 0
        tokens, salts = sequence.prompt_token_ids, sequence.salts
        return max(self.look_up(tokens, salts).num_cached_tokens, self.num_on_disk(tokens, salts))

    def restore(self, state: PrefillState, *, capacity: int, is_batched: bool) -> RowResult:
        """Restore the cached prefix of the prompt, or begin its disk read.

        The caches get room for `capacity` tokens. `is_batched`: other prompts are restored in the same step.
        """
        sequence = state.sequence
        if preempted := self._preempted.pop(sequence.sequence_id, None):
            state.caches, state.storage = preempted.caches, preempted.storage
            usage = replace(sequence.statistics.cache_usage, num_cached_tokens=sequence.num_prompt_tokens - 1)
            return RowResult(sequence=sequence, cache_usage=usage)
        if sequence.cache_mode == "off" or not self._reuses:
            state.caches = self._create_caches()
            return RowResult(sequence=sequence)
        tokens, salts = sequence.prompt_token_ids, sequence.salts
        state.storage = self._prefix_cache.storage
        plan = self._prefix_cache.plan(tokens, boundary_ids=sequence.stop_token_ids, salts=salts)
        usage = self._usage(tokens, plan)
        if taken := self._take_last(state, plan, usage):
            return self._restored(state, plan, taken)
        if state.promotion is None:
            state.promotion = self._prefix_cache.promote(tokens, plan, salts)
            if state.promotion is not None:
                self._restoring.append(state)
                return RowResult(sequence=sequence, is_restoring=True)
        state.caches = self._create_caches()
        num_cached, state.last_chunk = self._prefix_cache.restore(
            plan,
            state.caches,
            capacity=capacity,
            lifetime=sequence.lifetime,
            # PERF: prompts that are prefilled together are copied into one batch; a copy before that would
            # only touch more memory.
            is_lazy=is_batched and sequence.num_prompt_tokens - plan.num_cached <= _BATCHED_PREFILL_TOKENS,
        )
        if num_cached < plan.num_cached:
            state.caches = self._create_caches()
        hit = usage.hit if num_cached == plan.num_cached else "miss"
        return self._restored(state, plan, replace(usage, num_cached_tokens=num_cached, hit=hit))

    def store(
        self,
        state: PrefillState,
        num_tokens: int,
        caches: Caches,
        *,
        row: int | None = None,
        at_checkpoint: bool = True,
    ) -> None:
        """Store the first `num_tokens` of the sequence, which `caches` hold.

        Nothing is stored if its cache mode forbids it. `row` is its row in the caches of a batch. With
        `at_checkpoint` recurrent states are stored as well.
        """
        sequence = state.sequence
        if not (sequence.stores_prefix and self._reuses):
            return
        if num_tokens > sequence.num_client_tokens and sequence.cache_mode == "prefix":
            # The states are those after the answer; those after the prompt were stored after prefill.
            if self._prefix_cache.has_states:
                return
            num_tokens = sequence.num_client_tokens
        computed = ComputedTokens(
            tokens=sequence.tokens_in_cache(num_tokens),
            caches=caches,
            row=row,
            salts=sequence.salts,
            lifetime=sequence.lifetime,
            storage=state.storage,
        )
        state.last_chunk = self._prefix_cache.store(
            computed, num_tokens, last_chunk=state.last_chunk, at_checkpoint=at_checkpoint
        )

    def keep_preempted(self, state: PrefillState, caches: Caches) -> None:
        """Keep the caches of a preempted row, which `store` has stored."""
        state.promotion = None
        self._preempted[state.sequence.sequence_id] = PreemptedCaches.of(state, caches)

    def keep_last(self, state: PrefillState, caches: Caches) -> None:
        """Keep the caches of a row that decoded alone.

        Only if all of it may be cached without a time limit.
        """
        row = state.sequence
        if not self._reuses or row.cache_mode != "full" or row.lifetime != UNLIMITED_LIFETIME:
            return
        tokens = row.tokens_in_cache(row.length)
        if len(tokens) == row.length and self._prefix_cache.is_cacheable(len(tokens)):
            self._last = None
            with contextlib.suppress(*FOREIGN_ERRORS):
                self._last = LastConversation.of(
                    tokens, caches, storage=state.storage, salts=state.sequence.salts
                )

    def take_fetched(self, records: Iterable[FetchedRecord]) -> list[Sequence]:
        """Put records that were read from disk into memory.

        Returns the sequences that have all of theirs.
        """
        ready = []
        for record in records:
            for state in list(self._restoring):
                promotion = state.promotion
                if promotion is not None and promotion.fetch is record.fetch and promotion.take(record):
                    self._restoring.remove(state)
                    ready.append(state.sequence)
        return ready

    def drop(self, state: PrefillState) -> None:
        """Free a dropped sequence's caches; stop loading its prefix from disk."""
        self._preempted.pop(state.sequence.sequence_id, None)
        if state in self._restoring:
            self._restoring.remove(state)
            if state.promotion is not None:
                state.promotion.end()

    @property
    def kept_bytes(self) -> int:
        """Bytes of the last conversation's working cache."""
        return self._last.num_bytes if self._last is not None else 0

    def release_working_caches(self) -> None:
        """Free the last conversation's working cache.

        The prefix cache holds the same tokens.
        """
        self._last = None

    @property
    def preempted_bytes(self) -> int:
        """Bytes of the caches of preempted rows."""
        return sum(preempted.num_bytes for preempted in self._preempted.values())

    def release_preempted(self) -> None:
        """Free the caches of preempted rows.

        They are restored from the prefix cache when the rows continue.
        """
        self._preempted.clear()

    def _usage(self, tokens: Tokens, plan: RestorePlan) -> CacheUsage:
        is_cacheable = self._reuses and self._prefix_cache.is_cacheable(len(tokens))
        return CacheUsage(
            num_matched_tokens=plan.num_matched,
            num_cached_tokens=plan.num_cached,
            num_stored_tokens=len(tokens) - plan.num_matched if is_cacheable else 0,
            eviction_reason=self._prefix_cache.eviction_reason(tokens, plan),
            hit=plan.hit,
        )

    def _take_last(self, state: PrefillState, plan: RestorePlan, usage: CacheUsage) -> CacheUsage | None:
        """Give the sequence the last conversation's caches; return the usage.

        None if the prefix cache holds more of its prompt.
        """
        sequence, last = state.sequence, self._last
        if last is None or last.storage != state.storage:
            return None
        num_tokens = last.num_usable(sequence.prompt_token_ids, sequence.salts)
        if num_tokens < plan.num_cached or not self._prefix_cache.is_cacheable(num_tokens):
            return None
        state.last_chunk = self._prefix_cache.record_reuse(plan, num_tokens, lifetime=sequence.lifetime)
        state.caches = last.take(num_tokens)
        self._last = None
        return replace(
            usage,
            num_matched_tokens=max(usage.num_matched_tokens, num_tokens),
            num_cached_tokens=num_tokens,
            num_stored_tokens=min(usage.num_stored_tokens, sequence.num_prompt_tokens - num_tokens),
            hit=plan.hit if plan.num_cached else "prefix",
        )

    @staticmethod
    def _restored(state: PrefillState, plan: RestorePlan, usage: CacheUsage) -> RowResult:
        return RowResult(
            sequence=state.sequence, cache_usage=usage, checkpoint_positions=plan.checkpoint_positions
        )
