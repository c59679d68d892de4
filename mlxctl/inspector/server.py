"""The /cache addresses of a running `mlxctl serve`, for one command."""

from dataclasses import fields
from typing import Any

from mlxctl.inspector.branches import Branch, build_trees
from mlxctl.inspector.cached_chunk import CachedChunk
from mlxctl.inspector.connection import ServerConnection
from mlxctl.inspector.labels import UserMarkers

_FIELDS = {field.name for field in fields(CachedChunk)}


class CacheServer(ServerConnection):
    """The addresses about the prefix cache, and those that say what it gained."""

    def __init__(self, url: str, *, api_key: str | None) -> None:
        super().__init__(url, api_key=api_key)
        self._markers: dict[str, UserMarkers] = {}

    def trees(self) -> dict[str, list[Branch]]:
        """Everything that is kept, as conversations."""
        chunks = self.chunks()
        return build_trees(chunks, self._markers)

    def chunks(self) -> list[CachedChunk]:
        """Everything that is kept, page by page. What moves between two pages is told once."""
        found: dict[str, CachedChunk] = {}
        offset: int | None = 0
        while offset is not None:
            page = self.ask("GET", f"/cache?offset={offset}&tokens=true")
            for chunk in page["chunks"]:
                found[chunk["key"]] = CachedChunk(
                    **{name: value for name, value in chunk.items() if name in _FIELDS}
                )
            self._markers |= {
                model: UserMarkers(*pair) for model, pair in page.get("user_markers", {}).items()
            }
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
        explanations: list[dict[str, Any]] = self.ask(
            "POST", "/cache/explain", {"protocol": protocol, "body": body}
        )["explanations"]
        return explanations

    def stats(self) -> dict[str, Any]:
        """The server's counters."""
        return self.ask("GET", "/stats")

    def generate(self, path: str, body: Any) -> dict[str, Any]:
        """Make a request, and return its whole answer."""
        return self.ask("POST", path, body)
