"""The settings sections: defaults, bounds, and help texts under each field.

A field whose name ends in `_bytes` may be a number or a size (`"512MiB"`, `"8GB"`). A secret field never
appears in a repr, a log line or an error message.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

KVBits = Literal["full", "8", "4"]
Endpoint = Literal[
    "chat",
    "completions",
    "responses",
    "messages",
    "agents",
    "ollama",
    "embeddings",
    "transcriptions",
    "speech",
    "admin",
]
"""The endpoints that may have a timeout of their own. `admin` is loading and unloading of models."""


def bounded(default: Any, *, least: float, most: float | None = None) -> Any:
    """Return a field for a number from `least` to `most`, inclusive."""
    return field(default=default, metadata={"least": least, "most": most})


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """HTTP server: address, keys, limits."""

    # Port 8080 is the default of mlx_lm.server and llama.cpp, so that their clients work unchanged.
    host: str = "127.0.0.1"
    """Address to listen on. 0.0.0.0 accepts connections from the network; set an API key with it."""

    port: int = bounded(8080, least=0, most=65535)
    """Port to listen on. 0 picks a free port and prints it."""

    tls_cert: Path | None = None
    """Certificate for HTTPS, in PEM format, with its chain. Needs `tls_key`."""

    tls_key: Path | None = None
    """Private key of the certificate, in PEM format, without a password."""

    tls_client_ca: Path | None = None
    """Certificate authority in PEM format. Clients must then have a certificate of it (mutual TLS)."""

    api_keys: tuple[str, ...] = field(default=(), repr=False)
    """API key that clients must send, as `Authorization: Bearer` or `x-api-key`.

    Default: no authentication.
    """

    api_key_file: Path | None = None
    """File with one API key per line, in addition to `api_keys`. Other users cannot see it with `ps`."""

    admin_keys: tuple[str, ...] = field(default=(), repr=False)
    """Key for managing models, cache and downloads, and for /stats, /metrics and /requests.

    Default: any API key.
    """

    cache_groups: dict[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    """API key of a group that shares one prefix cache. Every other key has a prefix cache of its own."""

    cors_origins: tuple[str, ...] = ()
    """Web origin whose pages may call this server from a browser.

    `*` allows any origin, without credentials.
    """

    allowed_hosts: tuple[str, ...] = ()
    """Host header to accept beside the loopback names.

    When listening beyond loopback, an empty list accepts any.
    """

    max_body_bytes: int = bounded(32 * 1024**2, least=1024)
    """Maximum size of a request body."""

    max_header_bytes: int = bounded(64 * 1024, least=8192, most=16 * 1024**2)
    """Maximum size of the request line and headers together."""

    body_timeout_seconds: float = bounded(120.0, least=0.01)
    """Maximum time for receiving the body of a request."""

    max_queue: int = bounded(256, least=0)
    """Maximum number of requests waiting for a place in the batch. Further requests are refused."""

    request_timeout_seconds: float = bounded(1800.0, least=0.001)
    """Maximum duration of one request, including its time in the queue."""

    timeouts: dict[Endpoint, float] = field(default_factory=dict, metadata={"least": 0.001})
    """Maximum duration of the requests of one endpoint. All others use `request_timeout_seconds`."""

    ping_interval_seconds: float = bounded(10.0, least=0.01)
    """Idle time after which a stream sends a keep-alive comment."""

    drain_seconds: float = bounded(10.0, least=0.0)
    """Time that open requests get to finish after SIGTERM or Ctrl-C."""

    response_ttl_seconds: float = bounded(3600.0, least=0.0)
    """Time after its last use until a stored response expires."""

    response_store_bytes: int = bounded(256 * 1024**2, least=0)
    """Maximum disk space of stored responses. The least recently used are deleted first. 0 stores none."""

    ready_when: Literal["any", "first", "all"] = "all"
    """Models that /readyz needs: any one, the first, or all that an engine restart has lost."""

    max_agents: int = bounded(1000, least=0)
    """Maximum number of agents per caller."""

    memory_agent_ttl_seconds: float = bounded(86400.0, least=0.001)
    """Time after its last use until an agent without `persist` is deleted."""

    memory_agent_bytes: int = bounded(256 * 1024**2, least=1024)
    """Maximum size of the histories of all agents without `persist`. The least recently used are deleted."""

    agent_history_bytes: int = bounded(16 * 1024**2, least=1024)
    """Maximum size of one agent's history, including instructions and tools.

    A turn that exceeds it is refused.
    """

    agent_settings_bytes: int = bounded(1024**2, least=1024)
    """Maximum size of one agent's instructions, tools and metadata together."""

    agent_queue: int = bounded(16, least=0)
    """Maximum number of turns waiting for the current turn of the same agent. Further turns are refused."""

    strip_agent_headers: bool = True
    """Remove the billing lines that coding agents put before a system prompt and change with every call."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Minimum level of log messages on standard error."""

    log_format: Literal["text", "json"] = "text"
    """Format of log messages. `json` writes one object per line."""

    log_content: bool = False
    """Log prompts and answers, at level debug. Default: the log never has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """Engine process: memory, prefix cache, batching, supervision."""

    memory_limit_bytes: int | None = bounded(None, least=1)
    """Maximum memory for weights and caches together.

    Default: the limit that MLX recommends for this machine.
    """

    prefix_cache_bytes: int | None = bounded(None, least=0)
    """Maximum memory for the prefix cache. 0 turns it off. Default: a fifth of the memory limit."""

    prefix_cache_bits: Literal["full", "8", "4"] = "full"
    """Bits of stored prefix-cache entries.

    Fewer bits hold more tokens, but reuse is not exact. `kv_bits` takes precedence.
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
    """Maximum size of the disk tier. 0 turns it off. Only the owner can read it."""

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

    prefill_slice_seconds: float = bounded(0.5, least=0.001)
    """Maximum duration of one prefill step while nothing else runs."""

    target_gap_ms: float | None = bounded(None, least=1.0)
    """Maximum milliseconds between two tokens of an answer during prefill.

    Default: 200, or ten decode steps if that is longer.
    """

    target_ttft_ms: float = bounded(1000.0, least=0.0)
    """Milliseconds that a prompt may wait before prefill takes precedence over decoding.

    Prefill then runs as fast as the target gap allows, which slows answers down.
    """

    prefill_chunk_max_tokens: int = bounded(2048, least=1)
    """Maximum number of prompt tokens in one prefill step."""

    speculation: Literal["off", "auto", "lookup", "draft"] = "off"
    """Speculative decoding: several tokens a step where drafts come true. It changes no answer.

    `lookup` drafts what followed the last tokens earlier in the prompt or the answer, where that was measured
    to be faster. `draft` uses the draft model. `auto` uses both.
    """

    stall_seconds: float = bounded(120.0, least=0.1)
    """Time without any token, while requests run, after which the engine is restarted."""

    restart_backoff_max_seconds: float = bounded(30.0, least=0.0)
    """Maximum pause between attempts to restart the engine."""

    load_timeout_seconds: float = bounded(600.0, least=0.1)
    """Maximum time for loading a model."""

    blas: Literal["auto", "bundled"] = "auto"
    """BLAS library on Linux: `auto` prefers an installed OpenBLAS, `bundled` uses the one inside MLX."""


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

    A caller is an API key, or the address of a client without one.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """The model to serve by default."""

    path: Path | None = None
    """Model to serve: a directory, or a name or alias of the library.

    Default: the tiny built-in demo model.
    """

    name: str | None = None
    """Name of the model in requests. Default: the name of its directory."""

    probe_unknown: bool = False
    """Probe models that were never probed before `serve` starts. The results are stored."""

    trust_remote_code: bool = False
    """Allow Python code from the model directory to run."""

    kv_bits: KVBits = "full"
    """Bits of the KV cache while a model runs.

    Fewer bits allow longer contexts and change answers slightly.
    """

    draft: Path | None = None
    """Draft model for speculative decoding: a directory, or a name or alias of the library.

    Models with another vocabulary are served without it.
    """

    kv_group_size: Literal["32", "64", "128"] = "64"
    """Quantization group size of the KV cache. It must divide the model's head size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LibrarySettings:
    """The local model library."""

    models_dirs: tuple[Path, ...] = ()
    """Directories with models, as NAME or ORGANIZATION/NAME."""

    hub_cache: Path | None = None
    """Hugging Face cache to read from and download to. Default: HF_HUB_CACHE, HF_HOME or the usual place."""

    aliases: dict[str, str] = field(default_factory=dict)
    """Further names of models in the library, or of directories."""

    allow_downloads: bool = False
    """Let clients download models with `POST /downloads`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSettings:
    """Further models, and how many stay in memory."""

    models: tuple[Path, ...] = ()
    """Repeat the option for further models. They are loaded at their first request."""

    dirs: tuple[Path, ...] = ()
    """Directory whose models are all served under their names."""

    allow_library: bool = False
    """Serve every model of the local library, including the Hugging Face cache."""

    preload: bool = False
    """Load every model at start, as far as memory allows. Default: load a model at its first request."""

    max_models: int | None = bounded(None, least=1)
    """Maximum number of models in memory. Default: as many as fit."""

    pins: tuple[str, ...] = ()
    """Model that is never unloaded, neither for room nor for being idle."""

    ttl_seconds: float | None = bounded(None, least=0.1)
    """Idle time after which a model is unloaded. Default: it stays until its memory is needed."""

    kv_bits_by_name: dict[str, KVBits] = field(default_factory=dict)
    """KV cache bits of single models, by name. All others use `model.kv_bits`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingSettings:
    """Defaults of requests that set nothing else.

    They precede those of the model's own files.
    """

    temperature: float | None = bounded(None, least=0, most=100)
    """Temperature. Default: the model's."""

    top_p: float | None = bounded(None, least=0, most=1)
    """Nucleus sampling. 0 and 1 turn it off. Default: the model's."""

    top_k: int | None = bounded(None, least=-1)
    """Number of most likely tokens to sample from. 0 and -1 turn it off. Default: the model's."""

    min_p: float | None = bounded(None, least=0, most=1)
    """Minimum probability relative to the most likely token. Default: the model's."""

    repetition_penalty: float | None = bounded(None, least=0.001, most=10)
    """Repetition penalty. 1 turns it off. Default: the model's."""

    max_tokens: int | None = bounded(None, least=1)
    """Maximum tokens of an answer. Default: up to the model's context length."""

    seed: int | None = bounded(None, least=0, most=2**63 - 1)
    """Seed. Default: a new one for each request."""

    thinking: Literal["auto", "on", "off"] = "auto"
    """Thinking, for models that have a switch. `auto` leaves it to the model."""

    hlg: bool = False
    """Sample with a tone curve instead of a plain temperature.

    A request with top_p or top_k keeps plain sampling.
    """

    hlg_width: float = bounded(4.0, least=0.001, most=1000.0)
    """Width of the tone curve's middle on both sides of its pivot, in nats."""

    hlg_shoulder: float = bounded(4.0, least=0.001, most=1000.0)
    """Softness of the tone curve above its middle, in nats."""

    hlg_toe: float = bounded(6.0, least=0.001, most=1000.0)
    """Softness of the tone curve below its middle, in nats."""

    hlg_pivot_offset: float = bounded(6.0, least=0.001, most=1000.0)
    """Distance of the tone curve's pivot from the most likely token, in nats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterSettings:
    """LoRA adapters of the served models."""

    paths: dict[str, Path] = field(default_factory=dict)
    """LoRA adapter of the first model: a directory, or a name of the library. MODEL:NAME=PATH for others."""

    dirs: tuple[Path, ...] = ()
    """Directory below which clients may mount adapters with `POST /v1/adapters`."""

    max_mounted: int = bounded(16, least=0, most=256)
    """Maximum number of adapters. Further ones are refused until one is unmounted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSettings:
    """The audit log: one record per request, with keyed hashes."""

    enabled: bool = False
    """Write an audit log."""

    path: Path | None = None
    """Directory of the audit log. Default: `audit` in the state directory."""

    retention_days: float = bounded(30.0, least=0.001)
    """Time after which records are deleted, in whole files."""

    max_bytes: int = bounded(1024**3, least=1024)
    """Maximum size of the audit log. The oldest files are deleted first."""

    debug: bool = False
    """Write prompts and answers to the audit log as text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySettings:
    """The store of API keys, limits and guardrails that `mlxctl admin` manages."""

    path: Path | None = None
    """File of the store. Default: `policy.sqlite` in the state directory."""

    passphrase: str | None = field(default=None, repr=False)
    """Passphrase that encrypts the store. Better: MLXCTL_POLICY_PASSPHRASE, or a file."""

    passphrase_file: Path | None = None
    """File whose first line is the passphrase that encrypts the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpaSettings:
    """An Open Policy Agent server that decides about requests."""

    url: str | None = None
    """Document to ask, such as http://127.0.0.1:8181/v1/data/mlxctl/decision. Default: OPA is not asked."""

    timeout_seconds: float = bounded(0.2, least=0.001)
    """Maximum time for an answer."""

    on_error: Literal["deny", "allow"] = "deny"
    """What holds while the server does not answer."""

    cache_seconds: float = bounded(5.0, least=0.0)
    """Time for which a decision about equal facts is repeated without asking."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardrailSettings:
    """Texts that prompts or answers must not have."""

    blocklist: tuple[str, ...] = ()
    """Words or phrases. They match as whole words; upper and lower case are the same."""

    blocklist_file: Path | None = None
    """File with one word or phrase per line, in addition to `blocklist`."""

    regex: tuple[str, ...] = ()
    """Regular expressions. A match may have up to 4,096 characters."""

    apply_to: tuple[str, ...] = ("input", "output")
    """Where they are searched: `input` are prompts, `output` answers, thinking and tool calls."""

    action: Literal["refuse", "redact", "flag"] = "refuse"
    """What a match does: `refuse` ends the request, `redact` replaces the text, `flag` only records it."""

    models: tuple[str, ...] = ()
    """Globs of the models that they hold for. Default: all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitSettings:
    """Rate limits of each key.

    Without keys they hold for each remote address.
    """

    requests_per_minute: int = bounded(0, least=0)
    """Maximum number of requests in any minute. 0 is no limit."""

    tokens_per_minute: int = bounded(0, least=0)
    """Maximum number of computed prompt tokens and generated tokens in any minute. 0 is no limit."""

    concurrent: int = bounded(0, least=0)
    """Maximum number of open requests. 0 is no limit."""

    burst: int = bounded(0, least=0)
    """Maximum number of requests in any second. 0 is no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All sections of the settings file."""

    server: ServerSettings = ServerSettings()
    engine: EngineSettings = EngineSettings()
    model: ModelSettings = ModelSettings()
    library: LibrarySettings = LibrarySettings()
    pool: PoolSettings = PoolSettings()
    sampling: SamplingSettings = SamplingSettings()
    adapters: AdapterSettings = AdapterSettings()
    audit: AuditSettings = AuditSettings()
    limits: LimitSettings = LimitSettings()
    policy: PolicySettings = PolicySettings()
    opa: OpaSettings = OpaSettings()
    scheduler: SchedulerSettings = SchedulerSettings()
    guardrails: GuardrailSettings = GuardrailSettings()
