"""Reports that the engine sends to the front.

Every report is a tagged msgspec Struct. Numbers, strings and bytes cross, never arrays.
"""

from typing import Literal

import msgspec

from mlxctl.ir import FinishReason
from mlxctl.ir.cache_usage import NO_CACHE_USAGE, CacheUsage
from mlxctl.ir.conversation_size import ConversationSize
from mlxctl.ir.distribution import Distribution
from mlxctl.ir.kv_cache_size import KVPrecision, KVWindow
from mlxctl.ir.tokens import Salt

FailureKind = Literal["failed", "over_budget", "memory_shortage"]
LoadFailure = Literal["not_found", "broken", "not_enough_memory", "ranks"]
CacheKind = Literal["plain", "sliding", "hybrid"]
PreemptionReason = Literal["priority", "timeslice", "share", "pause", "memory"]
"""Why a row gives up its place.

To a row of higher priority, at the end of its time slice, to a caller with fewer rows than its share, since
its client does not read, or to more important rows that need its memory.
"""


class Report(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Base of what the engine sends to the front."""


class Hello(Report, frozen=True, kw_only=True):
    """The engine is ready for commands.

    Weights and caches together are limited to `memory_limit_bytes`, cached prefixes to `prefix_cache_bytes`.
    `backend` is MLX's: cpu, metal or cuda.
    """

    pid: int
    device: str
    backend: str
    mlx_version: str
    mlx_lm_version: str
    blas: str
    memory_limit_bytes: int
    prefix_cache_bytes: int


class ModelLoaded(Report, frozen=True, kw_only=True):
    """The model is ready; its bytes were measured after loading.

    `vocabulary_size` is the width of its logits. `kv_windows` are the sliding windows among the layers of
    `kv_bytes_per_token`. `kv_bits` is the precision of keys and values. `dimensions` is the length of an
    embedding model's vectors. `encoder_problem` is why a model with recipes of images or audio reads text
    only. `cache_limits` says in words what its caches are not used for. `work_bytes_per_token` and
    `fixed_bytes` are those of its `conversation`.
    """

    name: str
    vocabulary_size: int
    weights_bytes: int
    kv_bytes_per_token: int
    kv_windows: list[KVWindow] = []
    work_bytes_per_token: int = 0
    fixed_bytes: int = 0
    kv_bits: KVPrecision = None
    cache_kind: CacheKind
    load_seconds: float
    dimensions: int | None = None
    encoder_problem: str | None = None
    cache_limits: str | None = None

    @property
    def conversation(self) -> ConversationSize:
        """The least memory of a conversation."""
        return ConversationSize(
            bytes_per_token=self.kv_bytes_per_token,
            windows=self.kv_windows,
            work_bytes_per_token=self.work_bytes_per_token,
            fixed_bytes=self.fixed_bytes,
        )


class ModelLoadStep(Report, frozen=True, kw_only=True):
    """A model is being loaded.

    `num_bytes` of its weights are in memory.
    """

    name: str
    num_bytes: int


class ModelFailed(Report, frozen=True, kw_only=True):
    """The model could not be loaded; the engine continues without it."""

    name: str
    failure: LoadFailure
    message: str
    needed_bytes: int = 0
    limit_bytes: int = 0


class ModelUnloaded(Report, frozen=True, kw_only=True):
    """The model is unloaded, unless `is_in_use`.

    `freed_bytes` is by how much the memory in use shrank.
    """

    name: str
    weights_bytes: int = 0
    freed_bytes: int = 0
    is_in_use: bool = False


class Score(msgspec.Struct, frozen=True, array_like=True):
    """Log-probability of a token, and (id, log-probability) of the most likely ones."""

    logprob: float
    top: list[tuple[int, float]]


class PrefillFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Times of a sequence until its prefill ended, in seconds.

    It waited for `queue_seconds`; restoring and prefill then took `prefill_seconds`, with steps of other
    sequences in between. `restore_seconds` of these are for look-up and restoring. `vision_seconds` is the
    time of the vision encoder, None without images.
    """

    queue_seconds: float
    prefill_seconds: float
    restore_seconds: float = 0.0
    vision_seconds: float | None = None


class RowUpdate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The tokens that one step gave to one sequence.

    `scores` are the log-probabilities of `token_ids`, `prompt_scores` those of the next prompt tokens from
    the second on, where they were asked for. Updates before the first token carry `num_processed`, the prompt
    tokens that are computed, and `cache_usage`; the last of them also `prefill`. Of the draft tokens that
    speculative decoding verified in the step, the accepted ones are among `token_ids`. `interruption` is why
    the sequence gave its place to another one, `has_resumed` tells that it decodes again. An update with
    `finish_reason` or `failure` is the sequence's last.
    """

    sequence_id: int
    token_ids: list[int] = []
    scores: list[Score] = []
    prompt_scores: list[Score] = []
    num_processed: int | None = None
    num_accepted_draft_tokens: int = 0
    num_rejected_draft_tokens: int = 0
    cache_usage: CacheUsage = NO_CACHE_USAGE
    prefill: PrefillFigures | None = None
    interruption: PreemptionReason | None = None
    has_resumed: bool = False
    finish_reason: FinishReason | None = None
    failure: str | None = None
    failure_kind: FailureKind = "failed"


class Step(Report, frozen=True, kw_only=True):
    """The updates of one engine step."""

    rows: list[RowUpdate]


class DiskFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Size and errors of the disk cache since the engine's start.

    `num_dropped` prefixes were not written, for lack of space or time; `num_damaged` records were unusable.
    """

    num_bytes: int
    file_bytes: int
    max_bytes: int
    num_chunks: int
    num_states: int
    num_dropped: int
    num_damaged: int


class QueryReport(Report, frozen=True, kw_only=True):
    """Base of the answers to queries; `token` is the query's."""

    token: int


class Stats(QueryReport, frozen=True, kw_only=True):
    """Counters since the engine's start and what it holds now.

    `cache_disk` is None without a disk cache. `cache_working_bytes` are those of the last conversations'
    working caches; they count in the budget, beside `cache_bytes`. `cache_oldest_seconds` is the time since
    the last use of the oldest chunk. `cache_depths` counts chunks by the position of their end in the prompt,
    rounded up to a power of two. `cache_promotions` counts prompts whose prefix was read from disk.
    `prefix_cache_bits` is None for stored entries that are not quantized. `decode_step_seconds` and
    `batch_rows` have one value per decode step. `draft_tokens` are the accepted and rejected ones of each
    drafter, `draft_accepted` has the accepted tokens of each verified draft. `num_preempted` rows were
    interrupted and wait; their caches take `preempted_bytes`. Rows gave their place to others in
    `num_preemptions` for priority or memory, in `num_yields` after a time slice or share, and in
    `num_pauses` because their clients did not read; `num_resumes` continued. `num_paused` rows wait for their
    clients. `tokens_by_priority` counts computed tokens. `rank_memory_bytes` is MLX's active memory on the
    other ranks of a group, by rank; these figures are those of rank 0.
    """

    num_waiting: int
    num_prefilling: int
    num_decoding: int
    num_decode_groups: int
    num_steps: int
    num_prompt_tokens: int
    num_generated_tokens: int
    cache_bytes: int
    cache_working_bytes: int
    cache_max_bytes: int
    cache_chunks: int
    cache_evicted: int
    cache_evicted_bytes: int
    cache_tokens: int
    cache_oldest_seconds: float | None
    cache_depths: dict[int, int]
    cache_promotions: int
    prefix_cache_bits: int | None
    draft_tokens: dict[str, tuple[int, int]] = {}
    draft_accepted: dict[str, Distribution] = {}
    cache_tokens_reused: int
    cache_hits: dict[str, int]
    cache_disk: DiskFigures | None
    active_memory_bytes: int
    peak_memory_bytes: int
    buffer_cache_bytes: int
    resident_bytes: int | None
    decode_step_seconds: Distribution
    batch_rows: Distribution
    num_preempted: int
    num_paused: int
    preempted_bytes: int
    num_preemptions: int
    num_yields: int
    num_pauses: int
    num_resumes: int
    tokens_by_priority: dict[int, int]
    waiting_by_priority: dict[int, int]
    rank_memory_bytes: dict[int, int] = {}


class LookedUp(QueryReport, frozen=True, kw_only=True):
    """What submitting a prompt would take from the prefix cache now.

    The look-up changed nothing. `num_on_disk` tokens could be restored from disk.
    """

    usage: CacheUsage
    num_on_disk: int = 0


class CachedChunk(msgspec.Struct, frozen=True, kw_only=True):
    """A chunk of the prefix cache, with keys and values.

    Tokens are packed uint32. `parent` is b"" at the start of a prompt. `salts` are the images that reach into
    it. `model` is empty for weights that were not loaded since the start. Zero bytes in memory or on disk
    mean that it is not there. Times are unix seconds; `used_at` is 0 for a chunk not used since the start,
    `expires_at` None for one without a time limit.
    """

    key: bytes
    parent: bytes
    namespace: bytes
    model: str
    start: int
    tokens: bytes
    memory_bytes: int
    disk_bytes: int
    checkpoints: list[int]
    num_hits: int
    used_at: float
    expires_at: float | None
    is_pinned: bool
    num_leases: int
    salts: list[Salt] = []

    @property
    def num_images(self) -> int:
        """Number of images that reach into it."""
        # The salt of a namespace starts before the prompt.
        return sum(salt.start >= 0 for salt in self.salts)


class CacheAnswer(QueryReport, frozen=True, kw_only=True):
    """A page of chunks, or the number of changed ones.

    Least recently used first. `num_chunks` is how many there are in all.
    """

    num_chunks: int
    num_changed: int = 0
    chunks: list[CachedChunk] = []


class LoraChanged(QueryReport, frozen=True, kw_only=True):
    """A LoRA adapter was mounted or unmounted.

    Nothing changed if there is a `failure`.
    """

    failure: str = ""
