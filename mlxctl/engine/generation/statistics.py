"""Statistics of text generation: counters, histograms, and current sizes.

MLX thread only.
"""

import mlx.core as mx

from mlxctl.engine.host.process_memory import resident_bytes
from mlxctl.engine.memory import EngineMemory
from mlxctl.engine.ranks.group import RankGroup
from mlxctl.engine.scheduling.scheduler import Scheduler
from mlxctl.engine.speculation.policy.draft_counts import DraftCounts
from mlxctl.engine.wire.reports import Stats
from mlxctl.ir.distribution import Distribution

# Upper bounds of the histograms.
_DECODE_STEP_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1.0)
_BATCH_ROWS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)


class GenerationStatistics:
    """Counts steps and draft tokens, and reports all figures of generation."""

    def __init__(
        self,
        scheduler: Scheduler,
        memory: EngineMemory,
        group: RankGroup | None,
    ) -> None:
        self._scheduler = scheduler
        self._memory = memory
        self._group = group
        self.num_steps = 0
        self.drafts = DraftCounts()
        self._decode_step_seconds = Distribution.of(_DECODE_STEP_SECONDS)
        self._batch_rows = Distribution.of(_BATCH_ROWS)

    def add_decode_step(self, seconds: float, *, num_rows: int) -> None:
        """Add the duration of a decode step, and its number of rows."""
        self._decode_step_seconds.add(seconds)
        self._batch_rows.add(num_rows)

    def report(self, token: int) -> Stats:
        """Return all figures, for the query with this `token`."""
        memory, caches = self._memory, self._memory.prefixes
        index, (hits, num_reused) = caches.index, caches.hits()
        fairness, counts = self._scheduler.fairness, self._scheduler.counts()
        return Stats(
            token=token,
            num_waiting=counts.num_waiting,
            num_prefilling=counts.num_prefilling,
            num_decoding=counts.num_decoding,
            num_decode_groups=counts.num_groups,
            num_steps=self.num_steps,
            num_prompt_tokens=self._scheduler.num_prompt_tokens,
            num_generated_tokens=self._scheduler.num_generated_tokens,
            cache_bytes=index.num_bytes,
            cache_working_bytes=memory.kept_bytes - index.num_bytes,
            cache_max_bytes=index.max_bytes,
            cache_chunks=len(index),
            cache_evicted=index.num_evicted,
            cache_evicted_bytes=index.num_evicted_bytes,
            cache_tokens=index.num_tokens,
            cache_oldest_seconds=index.oldest_seconds(),
            cache_depths=index.depths,
            cache_promotions=caches.num_promotions,
            prefix_cache_bits=caches.packing.bits if caches.packing is not None else None,
            draft_tokens=dict(self.drafts.tokens),
            draft_accepted=self.drafts.accepted_per_draft,
            cache_tokens_reused=num_reused,
            cache_hits=hits,
            cache_disk=caches.disk_figures(),
            active_memory_bytes=int(mx.get_active_memory()),
            peak_memory_bytes=int(mx.get_peak_memory()),
            buffer_cache_bytes=int(mx.get_cache_memory()),
            resident_bytes=resident_bytes(),
            num_preempted=counts.num_preempted,
            num_paused=counts.num_paused,
            preempted_bytes=memory.preempted_bytes,
            num_preemptions=fairness.num_preemptions,
            num_yields=fairness.num_yields,
            num_pauses=fairness.num_pauses,
            num_resumes=fairness.num_resumes,
            tokens_by_priority=dict(sorted(fairness.tokens.items())),
            waiting_by_priority=counts.waiting_by_priority,
            decode_step_seconds=self._decode_step_seconds,
            batch_rows=self._batch_rows,
            rank_memory_bytes=dict(self._group.memory_bytes) if self._group is not None else {},
        )
