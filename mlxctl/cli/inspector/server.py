"""Requests to the /cache routes of a running `mlxctl serve`."""

from typing import Annotated, Any, TypedDict

import msgspec

from mlxctl.cli.inspector.branches import Branch, build_trees
from mlxctl.cli.inspector.cached_chunk import ListedChunk
from mlxctl.cli.inspector.connection import MAX_PAGES, ServerConnection
from mlxctl.cli.inspector.labels import UserMarkers
from mlxctl.inference.cache import Explanation
from mlxctl.inference.remote.server_answers import convert_answer
from mlxctl.ir.errors import UnknownResource


class CacheChange(TypedDict):
    """How many chunks changed, and how many there are."""

    num_changed: int
    num_chunks: int


class _Explanations(msgspec.Struct):
    explanations: list[Explanation]


class _OneExplanation(msgspec.Struct):
    explanations: Annotated[list[Explanation], msgspec.Meta(min_length=1)]


class _DiskFigures(msgspec.Struct):
    file_bytes: int
    max_bytes: int
    num_chunks: int
    num_states: int
    num_dropped: int
    num_damaged: int


class _Stats(msgspec.Struct):
    """The counters that the commands show."""

    cache_bytes: int
    cache_max_bytes: int
    cache_chunks: int
    cache_evicted: int
    num_prompt_tokens: int
    cache_tokens_reused: int
    cache_hits: dict[str, int]
    cache_disk: _DiskFigures | None = None


class _ChunkPage(msgspec.Struct):
    chunks: list[ListedChunk]
    next_offset: int | None
    user_markers: dict[str, tuple[str, str]] = {}


class CacheServer(ServerConnection):
    """Requests about the prefix cache, its statistics and generation."""

    def __init__(self, url: str, *, api_key: str | None) -> None:
        super().__init__(url, api_key=api_key)
        self._markers: dict[str, UserMarkers] = {}

    def trees(self) -> dict[str, list[Branch]]:
        """Return all chunks as conversations."""
        chunks = self.chunks()
        try:
            return build_trees(chunks, self._markers)
        except RecursionError:
            raise UnknownResource(f"the chunks of {self.root}/cache fork too often to be drawn") from None

    def chunks(self) -> list[ListedChunk]:
        """Return all chunks, page by page.

        A chunk that moved between pages appears once.
        """
        found: dict[str, ListedChunk] = {}
        offset = 0
        for _ in range(MAX_PAGES):
            page = self.request("GET", f"/cache?offset={offset}&tokens=true", _ChunkPage)
            for chunk in page.chunks:
                if chunk.token_ids is not None and len(chunk.token_ids) != chunk.num_tokens:
                    raise UnknownResource(f"chunk {chunk.key!r} of {self.root}/cache has other token_ids")
                found[chunk.key] = chunk
            self._markers |= {model: UserMarkers(*pair) for model, pair in page.user_markers.items()}
            if page.next_offset is None:
                return list(found.values())
            offset = page.next_offset
        raise self.endless("/cache")

    def change(self, action: str, keys: list[str] | None = None) -> CacheChange:
        """Pin, unpin, drop, clear or gc."""
        return self.request("POST", f"/cache/{action}", CacheChange, None if keys is None else {"keys": keys})

    def explain_last(self, num: int) -> list[dict[str, Any]]:
        """Explain the last requests, newest first."""
        found = self.request("GET", f"/cache/explain?last={num}", _Explanations)
        explanations: list[dict[str, Any]] = msgspec.to_builtins(found.explanations)
        return explanations

    def explain(self, protocol: str, body: Any) -> list[dict[str, Any]]:
        """Explain a request without sending it."""
        question = {"protocol": protocol, "body": body}
        found = self.request("POST", "/cache/explain", _OneExplanation, question)
        explanations: list[dict[str, Any]] = msgspec.to_builtins(found.explanations)
        return explanations

    def stats(self) -> dict[str, Any]:
        """Return the server's counters."""
        counters = self.request("GET", "/stats", dict[str, Any])
        convert_answer(counters, _Stats, url=f"{self.root}/stats")
        return counters

    def generate(self, path: str, body: Any) -> None:
        """Send a request and wait for its whole response."""
        self.request("POST", path, dict[str, Any], body)
