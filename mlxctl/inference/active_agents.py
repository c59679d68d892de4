"""Recently active agents: their names, and the cached part of their prompts.

Bounded. Event-loop thread only.
"""

import asyncio
import secrets
import time
from array import array
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from mlxctl.engine import EngineClient
from mlxctl.inference.cache.inspector import CachedPrompt
from mlxctl.inference.cache.recent_prompts import RecordedPrompt
from mlxctl.ir import GenerationRequest
from mlxctl.ir.errors import CapacityError, EngineError
from mlxctl.ir.tokens import Salt

MAX_AGENTS = 64
MAX_BYTES = 16 << 20
"""Most bytes of the agents' last prompts, four for each token."""

ACTIVE_SECONDS = 3600.0
"""Time after its last request in which an agent counts as active."""

REFRESH_SECONDS = 5.0
"""Minimum time between two look-ups of all agents."""

_WAIT_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LastPrompt:
    """The newest prompt of an agent; `at` is the clock's time.

    With cache_mode `off` it has `num_tokens`, and no ids.
    """

    at: float
    model: str
    num_tokens: int
    token_ids: "array[int]"
    salts: tuple[Salt, ...]


class ActiveAgents:
    """The agents of the last hour, by caller.

    A request names its agent with `session_id`. Without one, the agent's name is a digest of tools, system
    messages, first user message and caller, keyed with a secret of this process. It reveals nothing about the
    text, differs between callers and changes with a restart.
    """

    def __init__(self, engine: EngineClient, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._engine = engine
        self._clock = clock
        self._secret = secrets.token_bytes(32)
        self._prompts: OrderedDict[tuple[str, bytes, str], LastPrompt] = OrderedDict()
        self._cached: Sequence[CachedPrompt] | None = None
        self._refresh: asyncio.Task[Sequence[CachedPrompt] | None] | None = None
        self._refreshed_at: float | None = None

    def name_of(self, head: GenerationRequest, opening: bytes | None, *, owner: str) -> str | None:
        """Return the agent of a request.

        `opening` is the digest of its conversation's opening. None for a request with neither that nor a
        `session_id`.
        """
        if head.cache.session_id is not None or opening is None:
            return head.cache.session_id
        content = repr((opening, head.cache.namespace, owner)).encode()
        return f"auto-{blake2b(content, key=self._secret, digest_size=5).hexdigest()}"

    def record(self, agent: str, recorded: RecordedPrompt, namespace: bytes, *, owner: str) -> None:
        """Record a request of an agent.

        The least recently active agents are dropped.
        """
        key = (owner, namespace, agent)
        self._prompts[key] = LastPrompt(
            at=self._clock(),
            model=recorded.model,
            num_tokens=recorded.num_prompt_tokens,
            token_ids=recorded.prompt_ids,
            salts=recorded.salts,
        )
        self._prompts.move_to_end(key)
        while len(self._prompts) > 1 and self._is_full():
            self._prompts.popitem(last=False)

    async def cached_prompts(self) -> Sequence[CachedPrompt] | None:
        """Return how much of each active agent's last prompt is cached.

        Figures of the last look-up while the engine is slow to answer, None if there are none.
        """
        now = self._clock()
        is_due = self._refreshed_at is None or now - self._refreshed_at >= REFRESH_SECONDS
        if is_due and (self._refresh is None or self._refresh.done()):
            self._refreshed_at = now
            self._refresh = asyncio.create_task(self._look_up(), name="look-up-agents")
        if (refresh := self._refresh) is not None:
            done, _ = await asyncio.wait({refresh}, timeout=_WAIT_SECONDS)
            if done and not refresh.cancelled():
                self._cached = refresh.result()
        return self._cached

    def close(self) -> None:
        """Stop looking up."""
        if self._refresh is not None:
            self._refresh.cancel()

    async def _look_up(self) -> Sequence[CachedPrompt] | None:
        """Look up one agent after the other, to delay decoding little."""
        oldest = self._clock() - ACTIVE_SECONDS
        while self._prompts and next(iter(self._prompts.values())).at < oldest:
            self._prompts.popitem(last=False)
        found = []
        for prompt in list(self._prompts.values()):
            if not prompt.token_ids:
                found.append(
                    CachedPrompt(
                        num_prompt_tokens=prompt.num_tokens, num_cached_tokens=0, num_tokens_on_disk=0
                    )
                )
                continue
            try:
                kept = await self._engine.look_up(prompt.model, prompt.token_ids, prompt.salts)
            except (CapacityError, EngineError):
                return None
            found.append(
                CachedPrompt(
                    num_prompt_tokens=prompt.num_tokens,
                    num_cached_tokens=kept.usage.num_cached_tokens,
                    num_tokens_on_disk=kept.num_on_disk,
                )
            )
        return found

    def _is_full(self) -> bool:
        num_bytes = sum(4 * len(prompt.token_ids) for prompt in self._prompts.values())
        return len(self._prompts) > MAX_AGENTS or num_bytes > MAX_BYTES
