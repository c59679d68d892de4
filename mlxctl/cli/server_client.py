"""Requests of commands to a running `mlxctl serve`."""

from collections.abc import Callable
from typing import Annotated, Any, Literal
from urllib.parse import quote

import msgspec

from mlxctl.cli.inspector.branches import Branch, build_trees
from mlxctl.cli.inspector.cached_chunk import ListedChunk
from mlxctl.cli.inspector.labels import UserMarkers
from mlxctl.cli.server_bodies import (
    AdapterList,
    AgentMessage,
    AgentSummary,
    CacheChange,
    CacheCounters,
    CancelledRequest,
    ChunkPage,
    Item,
    LiveSettings,
    LoadedModel,
    LoadProgress,
    ModelStatus,
    MountedAdapter,
    Page,
    PoolCounters,
    ServedModelRow,
)
from mlxctl.cli.server_connection import ServerConnection
from mlxctl.inference.remote import RemoteModel
from mlxctl.inference.remote.model_list import read_models
from mlxctl.inference.remote.server_answers import convert_answer
from mlxctl.ir.errors import CapacityError, ServerUnreachable, UnknownResource

ModelAction = Literal["load", "unload", "pin", "unpin"]
_AGENTS_A_PAGE = 100
MAX_PAGES = 1000
"""Pages of one list; 100,000 agents, or half a million chunks of the prefix cache."""


class ServerClient(ServerConnection):
    """Reads and changes models, adapters, agents, prefix cache and settings."""

    def models(self) -> tuple[RemoteModel, ...]:
        """Return the models that requests can name, in the server's order."""
        return read_models(self.content("GET", "/v1/models"), url=self.root)

    def model_rows(self) -> list[ServedModelRow]:
        """Return the models once each, in the server's order, with their use."""
        try:
            loaded = {model.name: model for model in self.request("GET", "/stats", PoolCounters).pool.models}
        except CapacityError:
            # The engine is starting, or models are being probed before it does.
            loaded = {}
        listed = {model.name: model for model in self.models()}
        # A root that is not listed is no model of its own.
        aliases: dict[str, list[str]] = {}
        for name, model in listed.items():
            if model.alias_of in listed:
                aliases.setdefault(model.alias_of, []).append(name)
        return [
            _row(model, tuple(aliases.get(name, ())), loaded.get(name))
            for name, model in listed.items()
            if model.alias_of not in listed
        ]

    def change_model(self, action: ModelAction, name: str) -> ModelStatus:
        """Load, unload, pin or unpin a model, and return its state."""
        return self.request("POST", f"/models/{action}", ModelStatus, {"model": name})

    def load(self, name: str, *, on_progress: Callable[[int, int], None]) -> ModelStatus:
        """Load a model and return its state.

        `on_progress` gets the bytes in memory and those of the model's files, a few times a second.
        """
        path = "/models/load?stream=1"
        for event in self.events(path, {"model": name}):
            if "bytes_total" not in event:
                return convert_answer(event, ModelStatus, url=f"{self.root}{path}")
            progress = convert_answer(event, LoadProgress, url=f"{self.root}{path}")
            on_progress(progress.bytes_loaded, progress.bytes_total)
        raise ServerUnreachable(self.root, "the connection ended before the model was loaded")

    def adapters(self) -> list[MountedAdapter]:
        """Return the mounted LoRA adapters."""
        return self.request("GET", "/v1/adapters", AdapterList).adapters

    def mount(self, name: str, path: str, model: str | None) -> MountedAdapter:
        """Mount an adapter, and return it."""
        body = {"id": name, "path": path} | ({} if model is None else {"model": model})
        return self.request("POST", "/v1/adapters", MountedAdapter, body)

    def unmount(self, name: str, model: str | None) -> MountedAdapter:
        """Unmount an adapter, and return it."""
        query = "" if model is None else f"?model={quote(model, safe='')}"
        return self.request("DELETE", f"/v1/adapters/{quote(name, safe='')}{query}", MountedAdapter)

    def agents(self) -> list[AgentSummary]:
        """Return all agents of the API key, oldest first."""
        return self._items("/v1/agents", Page[AgentSummary])

    def agent(self, agent_id: str) -> AgentSummary:
        """Return the agent with this id."""
        return self.request("GET", _agent_path(agent_id), AgentSummary)

    def agent_messages(self, agent_id: str) -> list[dict[str, Any]]:
        """Return the whole conversation as messages of chat completions."""
        found = self._items(f"{_agent_path(agent_id)}/messages", Page[AgentMessage])
        return [each.message for each in found]

    def reset_agent(self, agent_id: str) -> None:
        """Delete the agent's conversation."""
        self.request("POST", f"{_agent_path(agent_id)}/reset", dict[str, Any])

    def delete_agent(self, agent_id: str) -> None:
        """Delete the agent with this id."""
        self.request("DELETE", _agent_path(agent_id), dict[str, Any])

    def trees(self) -> dict[str, list[Branch]]:
        """Return all chunks of the prefix cache as conversations."""
        chunks, markers = self._chunks()
        try:
            return build_trees(chunks, markers)
        except RecursionError:
            raise UnknownResource(f"the chunks of {self.root}/cache fork too often to be drawn") from None

    def chunks(self) -> list[ListedChunk]:
        """Return all chunks of the prefix cache."""
        return self._chunks()[0]

    def change_chunks(self, action: str, keys: list[str] | None = None) -> CacheChange:
        """Pin, unpin, drop, clear or gc."""
        return self.request("POST", f"/cache/{action}", CacheChange, None if keys is None else {"keys": keys})

    def explain_last(self, num: int) -> list[dict[str, Any]]:
        """Explain the last requests, newest first."""
        return self._explained("GET", f"/cache/explain?last={num}")

    def explain(self, protocol: str, body: Any) -> list[dict[str, Any]]:
        """Explain a request without sending it."""
        return self._explained("POST", "/cache/explain", {"protocol": protocol, "body": body}, least=1)

    def stats(self) -> dict[str, Any]:
        """Return the server's counters."""
        counters = self.request("GET", "/stats", dict[str, Any])
        convert_answer(counters, CacheCounters, url=f"{self.root}/stats")
        return counters

    def generate(self, path: str, body: Any) -> None:
        """Send a request and wait for its whole response."""
        self.request("POST", path, dict[str, Any], body)

    def cancel(self, request_id: str) -> CancelledRequest:
        """Cancel an open request by its number or HTTP request id."""
        return self.request("DELETE", f"/requests/{quote(request_id, safe='')}", CancelledRequest)

    def settings(self, name: str, changes: dict[str, Any] | None = None) -> LiveSettings:
        """Return the settings of `scheduler` or `cache`, after these changes."""
        return self.request("PATCH" if changes else "GET", f"/admin/{name}", LiveSettings, changes or None)

    def _chunks(self) -> tuple[list[ListedChunk], dict[str, UserMarkers]]:
        """Return the chunks of all pages, and each model's user markers.

        A chunk that moved between pages appears once.
        """
        found: dict[str, ListedChunk] = {}
        markers: dict[str, UserMarkers] = {}
        offset = 0
        for _ in range(MAX_PAGES):
            page = self.request("GET", f"/cache?offset={offset}&tokens=true", ChunkPage)
            for chunk in page.chunks:
                if chunk.token_ids is not None and len(chunk.token_ids) != chunk.num_tokens:
                    raise UnknownResource(f"chunk {chunk.key!r} of {self.root}/cache has other token_ids")
                found[chunk.key] = chunk
            markers |= {model: UserMarkers(*pair) for model, pair in page.user_markers.items()}
            if page.next_offset is None:
                return list(found.values()), markers
            offset = page.next_offset
        raise self._endless("/cache")

    def _explained(self, method: str, path: str, body: Any = None, *, least: int = 0) -> list[dict[str, Any]]:
        # PERF: only these commands need the prefix cache's values.
        from mlxctl.inference.cache import Explanation

        class Answer(msgspec.Struct):
            explanations: Annotated[list[Explanation], msgspec.Meta(min_length=least)]

        found: list[dict[str, Any]] = msgspec.to_builtins(
            self.request(method, path, Answer, body).explanations
        )
        return found

    def _items(self, path: str, kind: type[Page[Item]]) -> list[Item]:
        """Return the items of all pages."""
        found: list[Item] = []
        after = ""
        for _ in range(MAX_PAGES):
            page = self.request("GET", f"{path}?limit={_AGENTS_A_PAGE}{after}", kind)
            found += page.data
            if not page.has_more:
                return found
            after = f"&after={quote(page.last_id or '', safe='')}"
        raise self._endless(path)

    def _endless(self, path: str) -> UnknownResource:
        return UnknownResource(f"{self.root}{path} lists more than {MAX_PAGES} pages")


def _row(model: RemoteModel, aliases: tuple[str, ...], loaded: LoadedModel | None) -> ServedModelRow:
    return ServedModelRow(
        name=model.name,
        aliases=aliases,
        state=model.state or "unknown",
        is_pinned=model.pinned,
        weights_bytes=loaded.weights_bytes if loaded else model.size_bytes,
        context_length=model.context_length,
        num_requests=loaded.num_requests if loaded else None,
        idle_seconds=loaded.idle_seconds if loaded else None,
        problem=model.problem,
        remote=model.remote,
    )


def _agent_path(agent_id: str) -> str:
    return f"/v1/agents/{quote(agent_id, safe='')}"
