"""What crosses between front and engine: commands down, reports up.

Only ints, floats, strings and bytes cross, never an array.

Every message is a tagged msgspec Struct; a frame is one message in MessagePack behind its length (see
`framing`).
"""

from typing import Literal

import msgspec

from mlxctl.ir import (
    CacheMode,
    FinishReason,
    Guidance,
    ModelSpec,
    ProcessedImage,
    SamplingParams,
    SpeechTask,
)
from mlxctl.ir.tokens import Salt
from mlxctl.prefix_cache.policy import UNLIMITED_LIFETIME, Lifetime

LoadFailure = Literal["not_found", "broken", "not_enough_memory"]
CacheKind = Literal["plain", "sliding", "hybrid"]


class Command(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Base of what the front asks of the engine."""


class LoadModel(Command, frozen=True, kw_only=True):
    """Load a model; answered by ModelLoaded or ModelFailed."""

    spec: ModelSpec


class UnloadModel(Command, frozen=True, kw_only=True):
    """Free a model, or give up loading it; answered by ModelUnloaded.

    One that has sequences stays, and the answer says so.
    """

    name: str


class ReadGrammarVocabulary(Command, frozen=True, kw_only=True):
    """Make ready to match grammars for a model whose answers end with `stop_token_ids`: else the first one
    does. Has no answer.
    """

    name: str
    stop_token_ids: list[int]


class Submit(Command, frozen=True, kw_only=True):
    """Generate after `prompt_token_ids` (packed uint32, machine's byte order), until a stop token,
    `max_tokens`, or a Cancel.

    With `max_tokens` 0 the prompt is only read. With `scores_prompt` all of it is computed here, and nothing
    of it is kept. Prefixes are shared only within a `cache_namespace`.
    """

    sequence_id: int
    request_id: str = ""
    model: str
    prompt_token_ids: bytes
    sampling: SamplingParams
    stop_token_ids: list[int]
    max_tokens: int
    priority: int = 0
    fairness_key: str = ""
    cache_mode: CacheMode = "full"
    cache_namespace: bytes = b""
    lifetime: Lifetime = UNLIMITED_LIFETIME
    guidance: Guidance | None = None
    images: list[ProcessedImage] = []
    scores_prompt: bool = False


class JobCommand(Command, frozen=True, kw_only=True):
    """Base of commands with one result, answered by any number of JobReports.

    `job_id` is unique among jobs and sequences. `request_id` is the HTTP request's, as in Submit.
    """

    job_id: int
    request_id: str = ""


class Embed(JobCommand, frozen=True, kw_only=True):
    """Compute the vector of each text (packed uint32, machine's byte order); answered by Embedded.

    `dimensions` cuts the vectors; None leaves them whole.
    """

    model: str
    texts: list[bytes]
    dimensions: int | None = None


class AudioWindow(msgspec.Struct, frozen=True, kw_only=True):
    """Audio to transcribe: `samples` as in `ir.transcription`; `previous_ids` is the text before it.

    Without a `language_id` a multilingual model detects the language.
    """

    model: str
    samples: bytes
    task: SpeechTask = "transcribe"
    language_id: int | None = None
    previous_ids: list[int] = []
    temperature: float = 0.0


class Transcribe(JobCommand, frozen=True, kw_only=True):
    """Transcribe an audio window; answered by Transcribed."""

    window: AudioWindow


class Cancel(Command, frozen=True, kw_only=True):
    """Drop the sequences and jobs with these ids before the next step, without a report."""

    ids: list[int]


class ReportStats(Command, frozen=True, kw_only=True):
    """Answer with Stats carrying the same `token`."""

    token: int


class LookUp(Command, frozen=True, kw_only=True):
    """Answer with LookedUp carrying the same `token`: how much of `prompt_token_ids` (as in Submit) is
    computed already.

    `salts` are the caller's namespace and what the images of the prompt make of its tokens.
    """

    token: int
    model: str
    prompt_token_ids: bytes
    salts: list[Salt] = []


CacheAction = Literal["list", "pin", "unpin", "drop", "clear", "gc"]


class AskCache(Command, frozen=True, kw_only=True):
    """Answer with CacheAnswer carrying the same `token`: list a page of what the prefix cache holds, or
    change it.

    `keys` name what is pinned, unpinned or dropped with all that builds on it. `clear` drops everything, `gc`
    what has expired; what is in use or pinned stays.
    """

    token: int
    action: CacheAction
    keys: list[bytes] = []
    offset: int = 0
    limit: int = 0


class Stop(Command, frozen=True, kw_only=True):
    """End now: what still runs is dropped (the front drains before it says this)."""


class Report(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Base of what the engine tells the front."""


class Hello(Report, frozen=True, kw_only=True):
    """The engine is up and listens; weights and caches may take `memory_limit_bytes` together, kept ones
    `prefix_cache_bytes`.
    """

    pid: int
    device: str
    mlx_version: str
    mlx_lm_version: str
    blas: str
    memory_limit_bytes: int
    prefix_cache_bytes: int


class ModelLoaded(Report, frozen=True, kw_only=True):
    """The model is ready.

    Bytes are measured on the loaded model, `vocabulary_size` is the width of its logits.

    `kv_bits` are those in which keys and values are kept, None for as they are computed. `dimensions` is the
    length of an embedding model's vectors, `vision_problem` why one that was to see only reads text.
    """

    name: str
    vocabulary_size: int
    weights_bytes: int
    kv_bytes_per_token: int
    kv_bits: int | None = None
    cache_kind: CacheKind
    load_seconds: float
    dimensions: int | None = None
    vision_problem: str | None = None


class ModelFailed(Report, frozen=True, kw_only=True):
    """The model could not be loaded; the engine serves on without it."""

    name: str
    failure: LoadFailure
    message: str
    needed_bytes: int = 0
    limit_bytes: int = 0


class ModelUnloaded(Report, frozen=True, kw_only=True):
    """The model is gone, unless `is_in_use`.

    `weights_bytes` were loaded; by `freed_bytes` the memory in use really shrank.
    """

    name: str
    weights_bytes: int = 0
    freed_bytes: int = 0
    is_in_use: bool = False


class Score(msgspec.Struct, frozen=True, array_like=True):
    """Log-probabilities of one token: its own, then (id, log-probability) of the most likely, best first."""

    logprob: float
    top: list[tuple[int, float]]


class RowUpdate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one step meant for one sequence.

    `token_ids` are new tokens, `scores` their log-probabilities if asked for. `prompt_scores` are those of
    the next tokens of the prompt, from its second on, if these were asked for. `num_processed` tells how much
    of the prompt has been read, in reports before the first token, with what LookedUp says beside. A row with
    `finish_reason` or `failure` is the sequence's last.
    """

    sequence_id: int
    token_ids: list[int] = []
    scores: list[Score] = []
    prompt_scores: list[Score] = []
    num_processed: int | None = None
    num_cached: int = 0
    num_known: int = 0
    num_new: int = 0
    gone: str | None = None
    finish_reason: FinishReason | None = None
    failure: str | None = None


class Step(Report, frozen=True, kw_only=True):
    """One engine step: an update for every row that has news."""

    rows: list[RowUpdate]


class JobReport(Report, frozen=True, kw_only=True):
    """Base of what a step gave for a job; with a `failure` it is the job's last."""

    job_id: int
    failure: str | None = None


class Embedded(JobReport, frozen=True, kw_only=True):
    """Vectors of some texts of a job: float32, machine's byte order, one after the other.

    `places` are the indices of the texts in Embed; none while a long text is still being computed.
    """

    places: list[int] = []
    vectors: bytes = b""


class TranscribedWindow(msgspec.Struct, frozen=True, kw_only=True):
    """The transcript of a window: tokens of text and timestamps.

    `no_speech` is the probability, by the model, that the window holds no speech.
    """

    token_ids: list[int]
    language_id: int | None
    mean_logprob: float
    no_speech: float


class Transcribed(JobReport, frozen=True, kw_only=True):
    """The transcript of a window; without one, and without a failure, the work goes on."""

    window: TranscribedWindow | None = None


class DiskFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What the prefix cache has on disk, in records and in files, and what went wrong since the start.

    `num_dropped` prefixes were not written, for want of room or time; `num_damaged` records turned out to be
    of no use.
    """

    num_bytes: int
    file_bytes: int
    max_bytes: int
    num_chunks: int
    num_states: int
    num_dropped: int
    num_damaged: int


class Stats(Report, frozen=True, kw_only=True):
    """Counters since the engine's start, and what it holds now; `cache_disk` is None where nothing is kept on
    disk.

    `cache_working_bytes` are those of the last conversations' own caches; they count in the budget, beside
    `cache_bytes`.
    """

    token: int
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
    cache_tokens_reused: int
    cache_hits: dict[str, int]
    cache_disk: DiskFigures | None
    active_memory_bytes: int
    peak_memory_bytes: int
    buffer_cache_bytes: int
    resident_bytes: int | None


class LookedUp(Report, frozen=True, kw_only=True):
    """How many tokens of a prompt would be taken over from the prefix cache now; nothing was touched.

    `num_known` are known, more than that where no state was kept; `gone` is why what was known beyond is not
    there any more. `num_on_disk` could be brought back from disk.
    """

    token: int
    num_cached: int
    num_on_disk: int = 0
    num_known: int = 0
    gone: str | None = None


class CachedChunk(msgspec.Struct, frozen=True, kw_only=True):
    """A run of tokens (packed uint32) whose keys and values are kept, with the images that reach into it as
    `salts`. `parent` is b"" at the beginning of a prompt.

    `model` is empty for weights that were not loaded since the start. Zero bytes in memory or on disk: not
    there. Times are unix seconds; `used_at` is 0 for what was not used since the start, `expires_at` None for
    what never expires.
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


class CacheAnswer(Report, frozen=True, kw_only=True):
    """A page of chunks, those used longest ago first, or how many chunks were changed; and how many there are
    in all.
    """

    token: int
    num_chunks: int
    num_changed: int = 0
    chunks: list[CachedChunk] = []


AnyCommand = (
    LoadModel
    | UnloadModel
    | ReadGrammarVocabulary
    | Submit
    | Embed
    | Transcribe
    | Cancel
    | ReportStats
    | LookUp
    | AskCache
    | Stop
)
AnyReport = (
    Hello
    | ModelLoaded
    | ModelFailed
    | ModelUnloaded
    | Step
    | Embedded
    | Transcribed
    | Stats
    | LookedUp
    | CacheAnswer
)
