"""Scheduler policy: what an operator may change while the server runs."""

import msgspec


class SchedulerPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Row limit, latency targets, preemption and time slices.

    The fields are those of `EngineSettings` and `SchedulerSettings`, whose bounds they have.
    """

    max_rows: int = 32
    target_gap_ms: float | None = None
    target_ttft_ms: float = 1000.0
    enable_preemption: bool = False
    high_priority_threshold: int = -5
    max_timeslice_tokens: int = 0
    aging_seconds: float = 2.0
    share_rows: bool = True
