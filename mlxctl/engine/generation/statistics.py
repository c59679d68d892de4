"""Statistics of text generation: counters, histograms, and what is held now.

MLX thread only.
"""

from collections.abc import Mapping

import mlx.core as mx

from mlxctl.engine.generation.runner import ModelRunner
from mlxctl.engine.memory import EngineMemory
from mlxctl.engine.process_memory import resident_bytes
from mlxctl.engine.scheduling.scheduler import Scheduler
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
        runners: Mapping[str, ModelRunner],
        *,
        prefix_cache_bits: int | None,
    ) -> None:
        """`prefix_cache_bits` is None for a prefix cache that is not quantized."""
        self._scheduler = scheduler
        self._memory = memory
        self._runners = runners
        self._prefix_cache_bits = prefix_cache_bits
        self.num_steps = 0
        self._closed_draft_tokens: dict[str, tuple[int, int]] = {}
        self._decode_step_seconds = Distribution.of(_DECODE_STEP_SECONDS)
        self._batch_rows = Distribution.of(_BATCH_ROWS)

    def add_decode_step(self, seconds: float, *, num_rows: int) -> None:
        """Add a decode step of so many rows."""
        self._decode_step_seconds.add(seconds)
        self._batch_rows.add(num_rows)

    def add_closed(self, runner: ModelRunner) -> None:
        """Add the draft tokens of a model that is unloaded."""
        _add_counts(self._closed_draft_tokens, runner.drafts.counts)

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
            prefix_cache_bits=self._prefix_cache_bits,
            draft_tokens=self._draft_tokens(),
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
        )

    def _draft_tokens(self) -> dict[str, tuple[int, int]]:
        """Return the accepted and rejected draft tokens by drafter, of all models."""
        totals = dict(self._closed_draft_tokens)
        for runner in self._runners.values():
            _add_counts(totals, runner.drafts.counts)
        return totals


def _add_counts(totals: dict[str, tuple[int, int]], counts: Mapping[str, tuple[int, int]]) -> None:
    for drafter, (accepted, rejected) in counts.items():
        before = totals.get(drafter, (0, 0))
        totals[drafter] = before[0] + accepted, before[1] + rejected
