"""Answers of `mlxctl serve` that commands read."""

from dataclasses import dataclass
from typing import Any, Generic, TypedDict, TypeVar

from msgspec import Struct

from mlxctl.cli.inspector.cached_chunk import ListedChunk

Item = TypeVar("Item")
LiveSettings = dict[str, str | int | float | bool | None]
"""Values by name, as /admin/scheduler and /admin/cache answer them."""


class CacheChange(TypedDict):
    """How many chunks changed, and how many there are."""

    num_changed: int
    num_chunks: int


class ChunkPage(Struct):
    """Chunks of the prefix cache."""

    chunks: list[ListedChunk]
    next_offset: int | None
    user_markers: dict[str, tuple[str, str]] = {}


class _DiskFigures(Struct):
    file_bytes: int
    max_bytes: int
    num_chunks: int
    num_states: int
    num_dropped: int
    num_damaged: int


class CacheCounters(Struct):
    """The counters of the prefix cache that commands show."""

    cache_bytes: int
    cache_max_bytes: int
    cache_chunks: int
    cache_evicted: int
    num_prompt_tokens: int
    cache_tokens_reused: int
    cache_hits: dict[str, int]
    cache_disk: _DiskFigures | None = None


class LoadedModel(Struct):
    """A model in memory."""

    name: str
    weights_bytes: int
    num_requests: int
    idle_seconds: float


class _Pool(Struct):
    models: list[LoadedModel]


class PoolCounters(Struct):
    """The models in memory."""

    pool: _Pool


class ModelStatus(Struct):
    """State of a model after a change."""

    model: str
    state: str
    pinned: bool


class LoadProgress(Struct):
    """Bytes of a model in memory, and those of its files."""

    bytes_loaded: int
    bytes_total: int


class MountedAdapter(Struct):
    """A LoRA adapter as the server lists it."""

    id: str
    model: str
    path: str
    format: str
    rank: int
    scale: float
    size_bytes: int
    mounted_layers: int


class AdapterList(Struct):
    """The mounted LoRA adapters."""

    adapters: list[MountedAdapter]


class CancelledRequest(Struct):
    """A cancelled request, with the numbers of its answers."""

    id: str
    cancelled: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSummary:
    """An agent as the server lists it; times are unix seconds.

    `status` says how much of its context is cached.
    """

    id: str
    model: str
    status: str
    num_messages: int
    context_tokens: int | None
    cached_tokens: int | None
    created_at: int
    last_access_at: int
    instructions: str | None


class AgentMessage(Struct):
    """A message of an agent."""

    message: dict[str, Any]


class Page(Struct, Generic[Item]):
    """A page of a list."""

    data: list[Item]
    has_more: bool
    last_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModelRow:
    """A model of the server.

    `aliases` are its other names; `remote` is the server that has it, None for this one. `num_requests` and
    `idle_seconds` are None unless it is in memory.
    """

    name: str
    aliases: tuple[str, ...] = ()
    state: str
    is_pinned: bool
    weights_bytes: int | None
    context_length: int | None
    num_requests: int | None
    idle_seconds: float | None
    problem: str | None
    remote: str | None = None
