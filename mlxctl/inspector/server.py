"""Requests to the /cache routes of a running `mlxctl serve`."""

from dataclasses import fields
from typing import Any

from mlxctl.inspector.branches import Branch, build_trees
from mlxctl.inspector.cached_chunk import ListedChunk
from mlxctl.inspector.connection import ServerConnection
from mlxctl.inspector.labels import UserMarkers

_FIELDS = {field.name for field in fields(ListedChunk)}


class CacheServer(ServerConnection):
    """Requests about the prefix cache, its statistics and generation."""

    def __init__(self, url: str, *, api_key: str | None) -> None:
        super().__init__(url, api_key=api_key)
        self._markers: dict[str, UserMarkers] = {}

    def trees(self) -> dict[str, list[Branch]]:
        """Return all chunks as conversations."""
        chunks = self.chunks()
        return build_trees(chunks, self._markers)

    def chunks(self) -> list[ListedChunk]:
        """Return all chunks, page by page.

        A chunk that moved between pages appears once.
        """
        found: dict[str, ListedChunk] = {}
        offset: int | None = 0
        while offset is not None:
            page = self.request("GET", f"/cache?offset={offset}&tokens=true")
            for chunk in page["chunks"]:
                found[chunk["key"]] = ListedChunk(
                    **{name: value for name, value in chunk.items() if name in _FIELDS}
                )
            self._markers |= {
                model: UserMarkers(*pair) for model, pair in page.get("user_markers", {}).items()
            }
            offset = page["next_offset"]
        return list(found.values())

    def change(self, action: str, keys: list[str] | None = None) -> dict[str, Any]:
        """Pin, unpin, drop, clear or gc."""
        return self.request("POST", f"/cache/{action}", None if keys is None else {"keys": keys})

    def explain_last(self, num: int) -> list[dict[str, Any]]:
        """Explain the last requests, newest first."""
        explanations: list[dict[str, Any]] = self.request("GET", f"/cache/explain?last={num}")["explanations"]
        return explanations

    def explain(self, protocol: str, body: Any) -> list[dict[str, Any]]:
        """Explain a request without sending it."""
        explanations: list[dict[str, Any]] = self.request(
            "POST", "/cache/explain", {"protocol": protocol, "body": body}
        )["explanations"]
        return explanations

    def stats(self) -> dict[str, Any]:
        """Return the server's counters."""
        return self.request("GET", "/stats")

    def generate(self, path: str, body: Any) -> dict[str, Any]:
        """Send a request and return its whole response."""
        return self.request("POST", path, body)
