"""What a model's batches allocate while they run. MLX thread only."""

from collections import abc
from collections.abc import Iterable

from mlxctl.engine.decoding import cache_room as room
from mlxctl.engine.decoding import caches as kv
from mlxctl.engine.decoding.decode_batch import DecodeBatch, in_join_order
from mlxctl.engine.generation.prefill_state import PrefillState
from mlxctl.engine.memory import EngineMemory
from mlxctl.engine.scheduling.model_queue import ModelCosts
from mlxctl.engine.scheduling.sequence import Sequence
from mlxctl.engine.speculation.policy.drafter import MAX_DRAFT_TOKENS
from mlxctl.ir.conversation_size import LOGIT_BYTES, OUTPUT_RESERVE_TOKENS, cache_capacity
from mlxctl.prefix_cache.records import grows, leaves

# Estimates of passes were at least 0.9 of the peaks of small models, see prefill_memory.
_PASS_MARGIN = 1.15
# Spare rows and a long prompt's room for the next turn take at most this share of the memory that is left.
_SPARE_SHARE = 1 / 8


class StepMemory:
    """Predicts what a step allocates, and chooses how much room caches get.

    Predictions are of the largest amount at a time beyond what is allocated before the step.
    """

    def __init__(self, memory: EngineMemory, costs: ModelCosts, *, vocabulary_size: int) -> None:
        self._memory = memory
        self._costs = costs
        self._logits_bytes = LOGIT_BYTES * vocabulary_size
        self.step_tokens = room.STEP_TOKENS

    def decode_bytes(self, groups: Iterable[abc.Sequence[DecodeBatch]]) -> int:
        """Return what a decode step allocates; 0 if no cache grows.

        Several batches in a group are joined first.
        """
        groups = [in_join_order(batches) for batches in groups]
        grown = [self._growth(batches, room.STEP_TOKENS) for batches in groups]
        if not any(grown):
            return 0
        beside = self._scratch_bytes(batch for batches in groups for batch in batches)
        self.step_tokens = room.STEP_TOKENS
        if sum(grown) + beside > self._memory.available_bytes:
            # Small steps copy more often, and leave less unused.
            self.step_tokens = room.LEAST_STEP_TOKENS
            grown = [self._growth(batches, room.LEAST_STEP_TOKENS) for batches in groups]
        return sum(grown) + beside

    def prefill_bytes(
        self, states: abc.Sequence[PrefillState], num_tokens: int, batches: abc.Sequence[DecodeBatch]
    ) -> int:
        """Return what a pass over the next `num_tokens` allocates.

        Over all remaining tokens of several prompts. `batches` decode beside it: what they copy while they
        grow must still fit afterwards.
        """
        beside = self._scratch_bytes(batches) + len(states) * self._costs.state_bytes
        if len(states) == 1:
            (state,) = states
            end = state.sequence.prefill.num_computed_tokens + num_tokens
            grown = 0 if state.unfinished_pass is not None else self._room_bytes(state, num_tokens)
            copied = room.largest_layer_bytes(state.caches or []) if grown else 0
            return beside + grown + max(copied, self._pass_bytes(num_tokens, end))
        longest = max(state.sequence.prefill.num_remaining_tokens for state in states)
        end = max(state.sequence.prefill.end for state in states)
        if states[0].unfinished_pass is not None:
            return beside + self._pass_bytes(len(states) * longest, end)
        new = len(states) * self._costs.cache_bytes(end + OUTPUT_RESERVE_TOKENS)
        held = sum(array.nbytes for state in states for array in kv.arrays(state.caches or []))
        joined = max(0, new - held) + new // self._costs.num_layers
        return beside + joined + self._pass_bytes(len(states) * longest, end)

    def restore_bytes(self, prompts: Iterable[Sequence]) -> int:
        """Return what restoring cached prefixes of prompts allocates at most."""
        return sum(
            self._costs.cache_bytes(self.capacity(prompt))
            for prompt in prompts
            if prompt.prefill.expected_cached_tokens
        )

    def capacity(self, sequence: Sequence) -> int:
        """Return the tokens for which a prompt's caches get room.

        Only where there is plenty of memory they get room for the next turn as well.
        """
        num_tokens = sequence.num_prompt_tokens
        wanted = cache_capacity(num_tokens)
        more = self._costs.cache_bytes(wanted) - self._costs.cache_bytes(num_tokens)
        if more <= self._spare_bytes:
            return wanted
        return num_tokens + min(sequence.max_tokens, OUTPUT_RESERVE_TOKENS)

    def affords_room(self, num_tokens: int) -> bool:
        """Whether a prompt's caches can be allocated anew, with others."""
        return self._costs.cache_bytes(num_tokens) <= self._memory.available_bytes // 2

    def is_short_for(self, batch: DecodeBatch) -> bool:
        """Whether the batch cannot be copied without freeing anything."""
        return sum(array.nbytes for array in kv.arrays(batch.caches)) > self._memory.unused_bytes

    def spare_bytes(self) -> int:
        """Return the bytes that spare rows may take."""
        return min(kv.SPARE_ROWS_BYTES, self._spare_bytes)

    def piece_bytes(self) -> int:
        """Return the bytes of layers that may be copied at a time."""
        return min(kv.PIECE_BYTES, self._spare_bytes)

    @property
    def _spare_bytes(self) -> int:
        return max(0, int(self._memory.available_bytes * _SPARE_SHARE))

    def _growth(self, batches: abc.Sequence[DecodeBatch], step: int) -> int:
        if len(batches) > 1:
            parts = [batch.caches for batch in batches]
            joined = room.join_bytes(parts, [len(batch.rows) for batch in batches])
            if joined:
                return joined + self.piece_bytes() + self.spare_bytes()
        caches = batches[0].caches
        grown = room.growth_bytes(caches, 1 + MAX_DRAFT_TOKENS, step=step)
        return int(grown * self._drafter_share(caches))

    def _drafter_share(self, caches: kv.Caches) -> float:
        """Return bytes per token with a draft model, relative to the caches'."""
        own = sum(kv.position_bytes(layer) for layer in leaves(caches))
        windows = sum(size for _, size in self._costs.kv_windows)
        return max(1.0, (self._costs.kv_bytes_per_token - windows) / own) if own else 1.0

    def _scratch_bytes(self, batches: Iterable[DecodeBatch]) -> int:
        """Return what decode steps need while they are computed."""
        total = 0
        for batch in batches:
            num_rows = len(batch.rows)
            others = [layer for layer in leaves(batch.caches) if not grows(layer)]
            states = sum(array.nbytes for array in kv.arrays(others))
            longest = max(row.length for row in batch.rows)
            total += states + self._pass_bytes(num_rows, longest) + num_rows * self._logits_bytes
            total += room.largest_layer_bytes(batch.caches)
        return total

    def _pass_bytes(self, num_tokens: int, end: int) -> int:
        estimate = self._costs.pass_memory.num_bytes(num_tokens, end=end)
        return int(estimate * _PASS_MARGIN) + self._logits_bytes

    def _room_bytes(self, state: PrefillState, num_tokens: int) -> int:
        """Return what a prompt's caches grow by for its next tokens."""
        progress, caches = state.sequence.prefill, state.caches or []
        grown = room.growth_bytes(caches, num_tokens, step=room.STEP_TOKENS)
        if grown or progress.num_computed_tokens:
            return grown
        rounded = -(-num_tokens // room.STEP_TOKENS) * room.STEP_TOKENS
        return self._costs.cache_bytes(rounded)
