"""What is reported of a sequence's prefill. Pure; MLX thread."""

from dataclasses import dataclass
from math import inf

from mlxctl.engine.wire.reports import PrefillFigures
from mlxctl.ir.cache_usage import NO_CACHE_USAGE, CacheUsage


@dataclass(slots=True, eq=False)
class PrefillStatistics:
    """Cache usage and times of a sequence's first prefill.

    `left_queue_at` is the time of its first batch, `restored_at` that of the first restore of its cached
    prefix, `reported_at` that of its last report.
    """

    cache_usage: CacheUsage = NO_CACHE_USAGE
    left_queue_at: float | None = None
    restored_at: float | None = None
    vision_seconds: float | None = None
    reported_at: float = -inf

    def note_batch(self, *, now: float) -> None:
        """Note a batch with the sequence; the first ends its wait."""
        if self.left_queue_at is None:
            self.left_queue_at = now

    def note_restore(self, usage: CacheUsage, *, now: float) -> None:
        """Note what was restored.

        Only the first restore counts; later ones follow preemptions.
        """
        if self.restored_at is None:
            self.restored_at, self.cache_usage = now, usage

    def add_vision_seconds(self, seconds: float) -> None:
        """Add time of the vision encoder."""
        self.vision_seconds = (self.vision_seconds or 0.0) + seconds

    def note_report(self, *, now: float) -> None:
        """Note that progress was reported."""
        self.reported_at = now

    def figures(self, *, arrived_at: float, now: float) -> PrefillFigures:
        """Return the figures of a prefill that ends now."""
        left_queue_at = self.left_queue_at
        assert left_queue_at is not None, "a batch comes before its results"
        return PrefillFigures(
            queue_seconds=left_queue_at - arrived_at,
            prefill_seconds=now - left_queue_at,
            restore_seconds=(self.restored_at or left_queue_at) - left_queue_at,
            vision_seconds=self.vision_seconds,
        )
