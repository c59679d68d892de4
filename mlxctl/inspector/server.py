"""The /cache addresses of a running `mlxctl serve`, for one command."""

import json
from dataclasses import dataclass, fields
from typing import Any, Self

import httpx

from mlxctl.errors import AuthenticationFailed, InvalidRequest, ServerUnreachable, UnknownResource

_CONNECT_SECONDS = 5.0
_ANSWER_SECONDS = 600.0


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


class CacheServer:
    """Raises ServerUnreachable, AuthenticationFailed, UnknownResource where there is no such server, and InvalidRequest."""

    def __init__(self, url: str, *, api_key: str | None) -> None:
        whole = url if "://" in url else f"http://{url}"
        self.root = whole.rstrip("/").removesuffix("/v1")
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        timeout = httpx.Timeout(_ANSWER_SECONDS, connect=_CONNECT_SECONDS)
        self._client = httpx.Client(headers=headers, timeout=timeout, trust_env=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def chunks(self) -> list[CachedChunk]:
        """Everything that is kept, page by page. What moves between two pages is told once."""
        found: dict[str, CachedChunk] = {}
        offset: int | None = 0
        while offset is not None:
            page = self._ask("GET", f"/cache?offset={offset}")
            for chunk in page["chunks"]:
                found[chunk["key"]] = CachedChunk(**{name: value for name, value in chunk.items() if name in _FIELDS})
            offset = page["next_offset"]
        return list(found.values())

    def change(self, action: str, keys: list[str] | None = None) -> dict[str, Any]:
        """Pin, unpin, drop, clear or gc."""
        return self._ask("POST", f"/cache/{action}", None if keys is None else {"keys": keys})

    def explain_last(self, num: int) -> list[dict[str, Any]]:
        """Explain the last requests, the newest first."""
        explanations: list[dict[str, Any]] = self._ask("GET", f"/cache/explain?last={num}")["explanations"]
        return explanations

    def explain(self, protocol: str, body: Any) -> list[dict[str, Any]]:
        """Explain a request that was not made."""
        explanations: list[dict[str, Any]] = self._ask("POST", "/cache/explain", {"protocol": protocol, "body": body})[
            "explanations"
        ]
        return explanations

    def stats(self) -> dict[str, Any]:
        """The server's counters."""
        return self._ask("GET", "/stats")

    def generate(self, path: str, body: Any) -> dict[str, Any]:
        """Make a request, and return its whole answer."""
        return self._ask("POST", path, body)

    def _ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        try:
            answer = self._client.request(method, f"{self.root}{path}", json=body)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ServerUnreachable(self.root, str(error) or type(error).__name__) from None
        if answer.status_code in (401, 403):
            raise AuthenticationFailed(f"the server at {self.root} wants another key; give it with --api-key")
        if answer.status_code == 404 and path.startswith(("/cache", "/stats")):
            raise UnknownResource(f"the server at {self.root} has no {path.split('?')[0]}; only `mlxctl serve` does")
        if answer.status_code >= 400:
            raise InvalidRequest(f"the server refuses this: {_complaint(answer)}")
        try:
            found: dict[str, Any] = answer.json()
        except json.JSONDecodeError:
            raise UnknownResource(f"the server at {self.root} answers {path} in words of its own") from None
        return found


def _complaint(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["error"]["message"])
    except (json.JSONDecodeError, KeyError, TypeError):
        return f"{answer.status_code} {answer.reason_phrase}"
