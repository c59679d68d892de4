"""The sections: every setting with its default, its bounds and, under it, the text that help pages show.

A field whose name ends in `_bytes` may be written as a number or as a size (`"512MiB"`, `"8GB"`).
A secret field never appears in a repr, a log line or an error message.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

KVBits = Literal["full", "8", "4"]


def bounded(default: Any, *, least: float, most: float | None = None) -> Any:
    """Return a field for a number that must lie between `least` and `most`, both included."""
    return field(default=default, metadata={"least": least, "most": most})


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """How HTTP is spoken, to whom, and how much of it at once."""

    # 8080 is where mlx_lm.server and llama.cpp answer, so clients set up for those find us; 8000 is every web project's own.
    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 lets the network in, so give an API key with it."""

    port: int = bounded(8080, least=0, most=65535)
    """Port to listen on; 0 takes a free one and prints it."""

    api_keys: tuple[str, ...] = field(default=(), repr=False)
    """Keys that clients must send, as `Authorization: Bearer` or `x-api-key`; default: no authentication."""

    admin_keys: tuple[str, ...] = field(default=(), repr=False)
    """Keys to administer models, cache and downloads and to see others' requests; default: any client may do both."""

    cors_origins: tuple[str, ...] = ()
    """Web origins whose pages may call this server from a browser; `*` allows any, without credentials."""

    allowed_hosts: tuple[str, ...] = ()
    """Further names for the Host header, beside the loopback names; when listening beyond loopback, empty allows any."""

    max_body_bytes: int = bounded(32 * 1024**2, least=1024)
    """Largest request body."""

    max_header_bytes: int = bounded(64 * 1024, least=8192, most=16 * 1024**2)
    """Largest request line and headers together."""

    max_queue: int = bounded(256, least=0)
    """Requests that may wait for a place in the batch; more are told to come back later."""

    request_timeout_seconds: float = bounded(1800.0, least=0.001)
    """Longest time that one request may take, waiting included."""

    ping_interval_seconds: float = bounded(10.0, least=0.01)
    """Silence after which a stream gets a keep-alive."""

    drain_seconds: float = bounded(10.0, least=0.0)
    """Time that open requests get to finish when the server is told to stop."""

    response_ttl_seconds: float = bounded(3600.0, least=0.0)
    """Time for which an answer can be referred to by a later request, counted from its last use."""

    response_store_bytes: int = bounded(256 * 1024**2, least=0)
    """Room on disk for such answers; those used longest ago make way; 0 keeps none."""

    max_agents: int = bounded(1000, least=0)
    """Most agents that one caller may have here."""

    agent_history_bytes: int = bounded(16 * 1024**2, least=1024)
    """Largest history of one agent; a turn that goes beyond it is refused."""

    agent_queue: int = bounded(16, least=0)
    """Turns of one agent that may wait for the one before them; more are told to come back later."""

    strip_agent_headers: bool = True
    """Whether lines that agents put before a system prompt for billing, and change with every call, are left out of prompts."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """What is worth a line on standard error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """What the engine process may use, and when it counts as dead."""

    memory_limit_bytes: int | None = bounded(None, least=1)
    """Memory for weights and caches together; without one, what the machine recommends."""

    prefix_cache_bytes: int | None = bounded(None, least=0)
    """Memory for prompts and answers computed already; without one, a fifth of the memory limit; 0 keeps nothing."""

    prefix_cache_bits: Literal["full", "8", "4"] = "full"
    """Bits in which computed prompts are kept: fewer hold more, and what is taken over is not exact; `kv_bits` goes before it."""

    prefix_cache_exact_tokens: int = bounded(4096, least=0)
    """Tokens at the beginning of every prompt that are kept exactly, whatever the bits."""

    cache_dir: Path | None = None
    """Directory for what memory has no room for, and for the next start; without one, `serve` takes the user's cache."""

    cache_disk_bytes: int = bounded(10 * 1024**3, least=0)
    """Room on disk for them; 0 writes nothing. Only the owner can read them, and what is not used for a day goes."""

    cache_min_free_bytes: int = bounded(4 * 1024**3, least=0)
    """What must stay free on that disk, whatever the room allowed."""

    max_rows: int = bounded(32, least=1)
    """Requests that are decoded at the same time."""

    prefill_slice_seconds: float = bounded(0.5, least=0.001)
    """Longest time for which reading a prompt may hold the engine when nothing else runs."""

    prefill_chunk_max_tokens: int = bounded(2048, least=1)
    """Most prompt tokens that go through the model at once."""

    stall_seconds: float = bounded(120.0, least=0.1)
    """Time without any token, though requests run, after which the engine is taken for dead."""

    restart_backoff_max_seconds: float = bounded(30.0, least=0.0)
    """Longest pause before a dead engine is started again."""

    load_timeout_seconds: float = bounded(600.0, least=0.1)
    """Longest time that loading a model may take."""

    blas: Literal["auto", "bundled"] = "auto"
    """Linear algebra on Linux: an installed OpenBLAS when there is one, or always the one bundled with MLX."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """Which model is served."""

    path: Path | None = None
    """The model: a directory, or a name or alias of the library; without one the tiny built-in demo model is served."""

    name: str | None = None
    """Name by which clients ask for the model; without one, the name of its directory."""

    trust_remote_code: bool = False
    """Whether Python code inside the model directory may be run."""

    kv_bits: KVBits = "full"
    """Bits in which models keep keys and values while they run: fewer make room for longer contexts, and change answers."""

    kv_group_size: Literal["32", "64", "128"] = "64"
    """Numbers that share a scale where keys and values are kept in fewer bits; it must divide the size of the model's heads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LibrarySettings:
    """Where models lie on this machine, and what they are called."""

    models_dirs: tuple[Path, ...] = ()
    """Directories that hold models, each in a directory of its own or as ORGANISATION/NAME."""

    hub_cache: Path | None = None
    """Hugging Face cache to look into and to download to; without one, where HF_HUB_CACHE or HF_HOME say, or the usual place."""

    aliases: dict[str, str] = field(default_factory=dict)
    """Further names: each stands for a model of the library, or for a directory."""

    allow_downloads: bool = False
    """Whether clients may have the server download models (`POST /downloads`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSettings:
    """Which further models can be asked for, and how many of them stay in memory."""

    models: tuple[Path, ...] = ()
    """Further models, loaded when first asked for: directories, or names or aliases of the library."""

    dirs: tuple[Path, ...] = ()
    """Directories whose models can all be asked for by their names."""

    allow_library: bool = False
    """Whether requests may name any model of the local library, the Hugging Face cache included."""

    preload: bool = False
    """Whether every model is loaded at the start, as far as memory holds them, and not when first asked for."""

    max_models: int | None = bounded(None, least=1)
    """Most models in memory at the same time; without one, as many as memory holds."""

    pins: tuple[str, ...] = ()
    """Models that are never unloaded to make room for others, nor for being idle."""

    ttl_seconds: float | None = bounded(None, least=0.1)
    """Time after which a model that nobody uses is unloaded; without one, it stays until room is needed."""

    kv_bits_by_name: dict[str, KVBits] = field(default_factory=dict)
    """Bits for keys and values of single models, by name; of all others `model.kv_bits` says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingSettings:
    """How tokens are drawn for requests that say nothing else."""

    hlg: bool = False
    """Whether tokens are drawn along a tone curve in place of a plain temperature; requests for top_p or top_k are not."""

    hlg_width: float = bounded(4.0, least=0.001, most=1000.0)
    """Reach of the curve's middle to both sides of its pivot, in nats."""

    hlg_shoulder: float = bounded(4.0, least=0.001, most=1000.0)
    """Softness of the curve above, in nats."""

    hlg_toe: float = bounded(6.0, least=0.001, most=1000.0)
    """Softness of the curve below, in nats."""

    hlg_pivot_offset: float = bounded(6.0, least=0.001, most=1000.0)
    """Distance of the curve's pivot from the likeliest token, in nats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All sections."""

    server: ServerSettings = ServerSettings()
    engine: EngineSettings = EngineSettings()
    model: ModelSettings = ModelSettings()
    library: LibrarySettings = LibrarySettings()
    pool: PoolSettings = PoolSettings()
    sampling: SamplingSettings = SamplingSettings()
