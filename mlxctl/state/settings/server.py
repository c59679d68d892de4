"""Settings of the HTTP server."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from mlxctl.state.settings.bounds import bounded

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
"""Endpoints that may have a separate timeout, with the routes of all dialects.

`embeddings` includes reranking, `admin` is loading and unloading of models.
"""


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
    """Private key of the certificate, in PEM format."""

    tls_key_password: str | None = field(default=None, repr=False)
    """Password of an encrypted `tls_key`. Better: a file."""

    tls_key_password_file: Path | None = None
    """File whose first line is the password of an encrypted `tls_key`. Needs the extra `policy`."""

    tls_min_version: Literal["1.2", "1.3"] = "1.2"
    """Oldest TLS version that clients may use. Older versions of Python and macOS do not support 1.3."""

    tls_client_ca: Path | None = None
    """Certificate authority in PEM format.

    Clients must then present a certificate that it issued (mutual TLS).
    """

    api_keys: tuple[str, ...] = field(default=(), repr=False)
    """API key that clients must send, as `Authorization: Bearer` or `x-api-key`.

    Default: no authentication.
    """

    api_key_file: Path | None = None
    """File with one API key per line, in addition to `api_keys`.

    Other users cannot see these keys with `ps`.
    """

    require_keys: bool | None = None
    """Refuse to start without an API key.

    Default: only once a key was added with `mlxctl admin keys add`. `false` starts without keys also when
    their store is lost.
    """

    admin_keys: tuple[str, ...] = field(default=(), repr=False)
    """Key for managing models, cache and downloads, and for /stats, /metrics and /requests.

    Default: any API key.
    """

    cache_groups: dict[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    """API key of a group that shares one prefix cache. Every other key has a separate prefix cache."""

    cors_origins: tuple[str, ...] = ()
    """Web origin whose pages may call this server from a browser.

    `*` allows any origin, without credentials; on a server without keys its pages may only list models and
    generate.
    """

    allowed_hosts: tuple[str, ...] = ()
    """Host header to accept in addition to the loopback names.

    If the server listens on another address, an empty list accepts addresses, the machine's own name,
    `*.local` and `*.internal`, and any name where callers need a key.
    """

    max_body_bytes: int = bounded(32 * 1024**2, least=1024)
    """Maximum size of a request body."""

    max_bodies_bytes: int = bounded(512 * 1024**2, least=1024)
    """Maximum size of the bodies of all open requests together.

    When it is reached, a caller with less than its share may still send bodies.
    """

    max_header_bytes: int = bounded(64 * 1024, least=8192, most=16 * 1024**2)
    """Maximum size of the request line and headers together."""

    body_timeout_seconds: float = bounded(120.0, least=0.01)
    """Maximum time for receiving the body of a request, without the wait for its turn."""

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
    """Time after its last use until a stored response or thread expires."""

    response_store_bytes: int = bounded(256 * 1024**2, least=0)
    """Maximum disk space of stored responses and threads. The least recently used go first. 0 stores none."""

    root_path: str | None = None
    """Path prefix of all routes, where a proxy passes it on. Paths without it work as well."""

    status_page: bool = True
    """Serve the web page at `/`. Without it, `/` answers with name and version only."""

    ready_when: Literal["any", "first", "all"] = "any"
    """Models that /readyz needs after an engine restart: any one, the first, or all that were lost."""

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
    """Remove the billing lines that coding agents put before a system prompt.

    They change with every call, so the cached prompt would not be reused.
    """

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Minimum level of log messages on standard error."""

    log_format: Literal["text", "json"] = "text"
    """Format of log messages. `json` writes one object per line."""

    log_content: bool = False
    """Log prompts and answers, at level debug. Default: the log never has them."""
