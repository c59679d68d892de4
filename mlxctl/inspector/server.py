"""The /cache addresses of a running `mlxctl serve`, for one command."""

from dataclasses import dataclass, fields
from typing import Any

from mlxctl.inspector.connection import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedChunk:
    """A run of tokens that is kept, as the server lists it; `start` is its place in the prompt. Times are unix seconds.

    On disk alone nobody counts hits, and only the order of use is known: `num_hits` and `used_at` are None.
    """

    key: str
    parent: str | None
    model: str | None
    namespace: str
    start: int
    num_tokens: int
    text: str | None
    memory_bytes: int
    disk_bytes: int
    checkpoints: list[int]
    num_hits: int | None
    used_at: float | None
    expires_at: float | None
    is_pinned: bool
    is_in_use: bool


_FIELDS = {field.name for field in fields(CachedChunk)}


class CacheServer(Connection):
    """The addresses about the prefix cache, and those that say what it gained."""

    def chunks(self) -> list[CachedChunk]:
        """Everything that is kept, page by page. What moves between two pages is told once."""
        found: dict[str, CachedChunk] = {}
        offset: int | None = 0
        while offset is not None:
            page = self.ask("GET", f"/cache?offset={offset}")
            for chunk in page["chunks"]:
                found[chunk["key"]] = CachedChunk(**{name: value for name, value in chunk.items() if name in _FIELDS})
            offset = page["next_offset"]
        return list(found.values())

    def change(self, action: str, keys: list[str] | None = None) -> dict[str, Any]:
        """Pin, unpin, drop, clear or gc."""
        return self.ask("POST", f"/cache/{action}", None if keys is None else {"keys": keys})

    def explain_last(self, num: int) -> list[dict[str, Any]]:
        """Explain the last requests, the newest first."""
        explanations: list[dict[str, Any]] = self.ask("GET", f"/cache/explain?last={num}")["explanations"]
        return explanations

    def explain(self, protocol: str, body: Any) -> list[dict[str, Any]]:
        """Explain a request that was not made."""
        explanations: list[dict[str, Any]] = self.ask("POST", "/cache/explain", {"protocol": protocol, "body": body})[
            "explanations"
        ]
        return explanations

    def stats(self) -> dict[str, Any]:
        """The server's counters."""
        return self.ask("GET", "/stats")

    def generate(self, path: str, body: Any) -> dict[str, Any]:
        """Make a request, and return its whole answer."""
        return self.ask("POST", path, body)
