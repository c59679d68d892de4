"""Sends fuzzed requests concurrently; checks answers and the idle state."""

import json
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import httpx

from .mutations import FuzzedRequest

AT_ONCE = 8
_PATIENCE_SECONDS = 60.0
_SPOKEN = 'data: {"type":"speech.audio.done"'


@dataclass
class Volley:
    """Requests sent so far, by route and status.

    Raises AssertionError with the request for an invalid answer.
    """

    url: str
    num_sent: int = 0
    num_left_early: int = 0
    slowest_seconds: float = 0.0
    statuses: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._client = httpx.Client(base_url=self.url, timeout=_PATIENCE_SECONDS)
        self._threads = ThreadPoolExecutor(AT_ONCE)
        self._client.post("/v1/agents", json={"model": "tiny", "id": "fuzzed"})

    def send(self, requests: Sequence[FuzzedRequest]) -> None:
        """Send all at the same time and wait for all answers."""
        for request, (status, seconds) in zip(
            requests, self._threads.map(self._judged, requests), strict=True
        ):
            self.num_sent += 1
            self.num_left_early += request.leaves_early
            self.slowest_seconds = max(self.slowest_seconds, seconds)
            self.statuses[f"{request.path} {status}"] += 1
        self._client.post("/v1/agents/fuzzed/reset")

    def leftovers(self) -> dict[str, int]:
        """Wait until the engine is idle and return what is open.

        All zero passes.
        """
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while any((left := self._open()).values()) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not any(left.values()), f"left over: {left}"
        return left

    def close(self) -> None:
        self._threads.shutdown()
        self._client.close()

    def _open(self) -> dict[str, int]:
        stats, health = self._client.get("/stats").json(), self._client.get("/health").json()
        rows = {name: stats[name] for name in ("num_waiting", "num_prefilling", "num_decoding")}
        return {
            **rows,
            "open_requests": health["open_requests"],
            "engine_restarts": health["engine"]["num_restarts"],
        }

    def _judged(self, request: FuzzedRequest) -> tuple[int, float]:
        started = time.monotonic()
        headers = {"content-type": "application/json", **request.headers}
        with self._client.stream("POST", request.path, content=request.body, headers=headers) as answer:
            body = b"" if request.leaves_early and answer.status_code == 200 else answer.read()
            try:
                assert answer.status_code < 500, "a server error"
                if answer.status_code >= 400:
                    _judge_refusal(request.path, json.loads(body))
                elif body:
                    _judge_answer(answer.headers["content-type"], body)
            except (AssertionError, KeyError, TypeError, ValueError) as error:
                raise AssertionError(
                    f"{error!r}: {request} was answered {answer.status_code} {body[:2000]!r}"
                ) from error
            return answer.status_code, time.monotonic() - started


def _judge_refusal(path: str, body: dict[str, Any]) -> None:
    error = body["error"]
    if path.startswith("/api/"):
        assert isinstance(error, str), "an error that is not Ollama's"
        return
    assert error["message"]
    # Routes of no protocol answer in Anthropic's shape to Anthropic's clients.
    if path.startswith("/v1/messages") or body.get("type") == "error":
        assert body["type"] == "error"
        assert error["type"].endswith("_error")
    else:
        assert error.keys() == {"message", "type", "param", "code"}


def _judge_answer(content_type: str, body: bytes) -> None:
    if content_type.startswith("application/json"):
        assert isinstance(json.loads(body), dict)
        return
    if content_type.startswith("audio/"):
        return
    text = body.decode()
    if content_type.startswith("application/x-ndjson"):
        assert json.loads(text.splitlines()[-1])["done"], "a stream that does not end"
        return
    last = text.removesuffix("\n\n").rpartition("\n\n")[2]
    assert last in ("data: [DONE]", 'data: {"type":"message_stop"}') or last.startswith(_SPOKEN), (
        "a stream that does not end"
    )
    assert "internal_error" not in text
    assert "response.failed" not in text
