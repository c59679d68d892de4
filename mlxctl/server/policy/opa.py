"""Decisions of an Open Policy Agent server, over its REST API."""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any, Literal

import httpx
import msgspec

from mlxctl.ir.errors import PolicyUnavailable
from mlxctl.ir.host_names import without_credentials
from mlxctl.server.policy.backend import ALLOWED, Decision, PolicyBackend, RequestFacts
from mlxctl.server.policy.bounded_answer import fetch_bounded

MAX_CACHED = 4096
_MAX_ANSWER_BYTES = 64 * 1024
_MAX_IDLE_CONNECTIONS = 20
_MAX_REASON_CHARS = 512

_log = logging.getLogger(__name__)


_NO_HEADERS: Mapping[str, str] = {}


class OpaPolicy:
    """Asks an OPA document about each request that the backend `local` allows.

    `url` is that of the document, such as http://127.0.0.1:8181/v1/data/mlxctl/decision. Its result is true,
    false, or an object with `allow` and `reason`. Decisions about equal facts are cached for `cache_seconds`.
    While the server does not answer, requests are denied or allowed as `on_error` says. Event-loop thread
    only.
    """

    def __init__(
        self,
        local: PolicyBackend,
        url: str,
        *,
        timeout_seconds: float = 0.2,
        on_error: Literal["deny", "allow"] = "deny",
        cache_seconds: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._local = local
        self._url = url
        self._timeout_seconds = timeout_seconds
        self._on_error = on_error
        self._cache_seconds = cache_seconds
        self._clock = clock
        self._cached: OrderedDict[RequestFacts, tuple[float, Decision]] = OrderedDict()
        self._client: httpx.AsyncClient | None = None
        self._is_failing = False

    async def decide(self, facts: RequestFacts, *, headers: Mapping[str, str] = _NO_HEADERS) -> Decision:
        """Decide about a request. Raises PolicyUnavailable where it fails closed.

        `headers` go to the server with the request.
        """
        decision = await self._local.decide(facts)
        if not decision.allowed:
            return decision
        now = self._clock()
        if (cached := self._cached.get(facts)) is not None and now < cached[0]:
            return cached[1]
        try:
            decision = await self._ask(facts, headers)
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, ValueError, RecursionError) as error:
            return self._failed(error)
        self._is_failing = False
        self._cached[facts] = now + self._cache_seconds, decision
        self._cached.move_to_end(facts)
        if len(self._cached) > MAX_CACHED:
            self._cached.popitem(last=False)
        return decision

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _ask(self, facts: RequestFacts, headers: Mapping[str, str]) -> Decision:
        if self._client is None:
            # As many connections as requests wait for a decision.
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=_MAX_IDLE_CONNECTIONS)
            self._client = httpx.AsyncClient(timeout=self._timeout_seconds, limits=limits, trust_env=False)
        document = asdict(replace(facts, scopes=frozenset())) | {"scopes": sorted(facts.scopes)}
        # The client's own timeout starts again with each part of the answer.
        async with asyncio.timeout(self._timeout_seconds):
            answer = await fetch_bounded(
                self._client,
                "POST",
                self._url,
                max_bytes=_MAX_ANSWER_BYTES,
                json={"input": document},
                headers=headers,
            )
        return _decision(msgspec.json.decode(answer))

    def _failed(self, error: Exception) -> Decision:
        if not self._is_failing:
            reason = repr(error)
            if isinstance(error, httpx.HTTPStatusError):
                # Its message has the whole URL.
                reason = f"status {error.response.status_code}"
            _log.error("the policy server %s does not decide: %s", without_credentials(self._url), reason)
        self._is_failing = True
        if self._on_error == "allow":
            return ALLOWED
        raise PolicyUnavailable("the policy server does not answer; try again later") from None


def _decision(answer: Any) -> Decision:
    """Return the decision in an answer of OPA; an undefined document denies.

    Raises ValueError.
    """
    result = answer.get("result", False) if isinstance(answer, dict) else None
    if isinstance(result, bool):
        result = {"allow": result}
    if not isinstance(result, dict) or not isinstance(result.get("allow"), bool):
        raise ValueError("the result is neither a boolean nor an object with 'allow'")  # noqa: TRY004 -- wrong content, not a wrong call
    if result["allow"]:
        return ALLOWED
    reason = result.get("reason")
    if not isinstance(reason, str) or not reason:
        reason = "the policy of this server denies the request"
    return Decision(allowed=False, reason=reason[:_MAX_REASON_CHARS])
