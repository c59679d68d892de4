"""Settings of the engine and its scheduler, and the policies that follow."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from mlxctl.state.settings.bounds import bounded

# PERF: completion of names reads settings, and must not import msgspec.
if TYPE_CHECKING:
    from mlxctl.ir.cache_policy import CachePolicy
    from mlxctl.ir.scheduler_policy import SchedulerPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """Engine process: memory, prefix cache, batching, supervision."""

    memory_limit_bytes: int | None = bounded(None, least=1)
    """Maximum memory for weights, caches and computation together.

    Of the engine's other memory, what exceeds 256 MB counts too. At most the memory of the machine. Default:
    the limit that MLX recommends for this machine.
    """

    prefix_cache_bytes: int | None = bounded(None, least=0)
    """Maximum memory for the prefix cache. 0 turns it off. Default: a fifth of the memory limit."""

    prefix_cache_bits: Literal["full", "8", "4"] = "full"
    """Bits of stored prefix-cache entries after their first `prefix_cache_exact_tokens` tokens.

    Fewer bits hold more tokens, but reuse is not exact. Prompts of up to 4,096 tokens stay exact, unless that
    setting is lower. `kv_bits` takes precedence.
    """

    prefix_cache_group_size: Literal["32", "64", "128"] = "64"
    """Numbers that share a scale in quantized prefix-cache entries.

    Smaller groups are closer to the original and take more bytes. Smaller sizes are used where it does not
    divide the model's head size.
    """

    prefix_cache_exact_tokens: int = bounded(4096, least=0)
    """Number of tokens at the start of every prompt that the prefix cache never quantizes."""

    memory_wait_seconds: float = bounded(60.0, least=0.0)
    """Maximum time that a request waits for memory which others hold. Then it is refused, to be repeated."""

    # Coding agents send the largest max_tokens that a model may have, whatever they need.
    admission: Literal["strict", "prompt"] = "prompt"
    """Memory that must exist for a request: `strict` counts its `max_tokens`, `prompt` a short answer."""

    cache_dir: Path | None = None
    """Directory of the prefix cache's disk tier. `serve` defaults to the user's cache directory."""

    cache_disk_bytes: int = bounded(10 * 1024**3, least=0)
    """Maximum size of the disk tier. 0 turns it off. Only the owner can read its files."""

    cache_ttl_seconds: float | None = bounded(None, least=0.0)
    """Time after the last use until prefix-cache entries expire, for requests without `ttl`. 0 stores none.

    Default: they stay until their memory is needed.
    """

    cache_disk_ttl_seconds: float = bounded(86400.0, least=0.0)
    """Time after the last use until entries of the disk tier expire, unless their `ttl` is shorter."""

    cache_min_free_bytes: int = bounded(4 * 1024**3, least=0)
    """Disk space that the disk tier always leaves free."""

    max_rows: int = bounded(32, least=1)
    """Maximum number of sequences that are decoded in one batch."""

    prefill_turn_seconds: float = bounded(0.5, least=0.001)
    """Maximum duration of a turn of prefill while nothing decodes."""

    target_gap_ms: float | None = bounded(None, least=1.0)
    """Maximum milliseconds between two tokens of an answer during prefill.

    Default: 200, or ten decode steps if that is longer.
    """

    target_ttft_ms: float = bounded(1000.0, least=0.0)
    """Milliseconds that a prompt may wait before prefill takes precedence over decoding.

    Prefill then runs as fast as `target_gap_ms` allows, which slows answers down. If `target_gap_ms` is not
    set, gaps grow with the wait once it is four times the target.
    """

    prefill_pass_max_tokens: int = bounded(2048, least=1)
    """Maximum number of prompt tokens in one prefill pass."""

    max_unread_tokens: int = bounded(1024, least=1)
    """Number of tokens of a stream that its client may leave unread. Then the answer pauses.

    Its place goes to other requests; it continues when the client reads.
    """

    slow_reader_seconds: float = bounded(300.0, least=0.1)
    """Maximum pause of a stream that its client does not read. Then it ends with an error."""

    speculation: Literal["off", "auto", "lookup", "draft", "mtp"] = "off"
    """Speculative decoding: a step yields several tokens where drafts are accepted. Answers stay the same.

    `lookup` finds the last tokens earlier in the prompt or answer and drafts what followed them there, if
    that was measured to be faster. `draft` uses the draft model, `mtp` the MTP head in the model's own
    weights or in its own directory. `auto` uses every drafter that is available.
    """

    max_draft_tokens: int = bounded(7, least=1, most=7)
    """Maximum number of tokens drafted a step for a request. Fewer where that was measured to be faster."""

    stall_seconds: float = bounded(120.0, least=0.1)
    """Time without any token, while requests run, after which the engine is restarted."""

    restart_backoff_max_seconds: float = bounded(30.0, least=0.0)
    """Maximum pause between attempts to restart the engine."""

    ranks: int = bounded(1, least=1, most=64)
    """Number of processes on this machine that compute every model together, each with its share.

    More than one is for trying out what `hosts` does on several machines.
    """

    hosts: Path | None = None
    """File with the addresses of several machines that compute every model together, each with its share.

    It is a hosts file of `mlx.launch`. This machine is the first; `mlxctl rank` runs on each other one.
    """

    parallel: Literal["auto", "tensor", "pipeline"] = "auto"
    """Share of a machine or process: `tensor` is a part of every layer, `pipeline` some of the layers.

    `auto` is `tensor` where the model can be split so, else `pipeline`.
    """

    load_timeout_seconds: float = bounded(600.0, least=0.1)
    """Maximum time for loading a model."""

    blas: Literal["auto", "bundled"] = "auto"
    """BLAS library on Linux: `auto` prefers an installed OpenBLAS, `bundled` uses the one inside MLX."""

    @property
    def is_group(self) -> bool:
        """Whether several ranks compute every model together."""
        return self.ranks > 1 or self.hosts is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings:
    """Preemption, time slices and aging.

    `PATCH /admin/scheduler` changes them while the server runs.
    """

    enable_preemption: bool = False
    """Let a request of high priority interrupt the least important answer, which continues later."""

    high_priority_threshold: int = bounded(-5, least=-100, most=100)
    """Priority up to which a request may interrupt others. Lower values are served first."""

    max_timeslice_tokens: int = bounded(0, least=0)
    """Number of tokens after which an answer lets a waiting request run. 0: an answer runs to its end.

    Answers of high priority are not interrupted.
    """

    aging_seconds: float = bounded(2.0, least=0.001)
    """Waiting time after which the priority value of a request falls by one."""

    share_rows: bool = True
    """Let a caller that waits take a row of a caller that has more than its share. Answers continue later.

    A caller is an API key, or a connection without one.
    """


_DEFAULT_SCHEDULER = SchedulerSettings()


def scheduler_policy(
    engine: EngineSettings, scheduler: SchedulerSettings = _DEFAULT_SCHEDULER
) -> "SchedulerPolicy":
    """Return the scheduler's policy at the start."""
    from mlxctl.ir.scheduler_policy import SchedulerPolicy

    return SchedulerPolicy(
        max_rows=engine.max_rows,
        target_gap_ms=engine.target_gap_ms,
        target_ttft_ms=engine.target_ttft_ms,
        enable_preemption=scheduler.enable_preemption,
        high_priority_threshold=scheduler.high_priority_threshold,
        max_timeslice_tokens=scheduler.max_timeslice_tokens,
        aging_seconds=scheduler.aging_seconds,
        share_rows=scheduler.share_rows,
    )


def cache_policy(engine: EngineSettings) -> "CachePolicy":
    """Return the prefix cache's policy at the start."""
    from mlxctl.ir.cache_policy import CachePolicy

    return CachePolicy(
        prefix_cache_bytes=engine.prefix_cache_bytes,
        prefix_cache_bits=engine.prefix_cache_bits,
        prefix_cache_group_size=engine.prefix_cache_group_size,
        prefix_cache_exact_tokens=engine.prefix_cache_exact_tokens,
        cache_ttl_seconds=engine.cache_ttl_seconds,
        cache_disk_ttl_seconds=engine.cache_disk_ttl_seconds,
    )
