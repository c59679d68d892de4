"""POST /v1/agents/{id}/generate: a turn of an agent's stored conversation.

A turn that fails leaves the history unchanged.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pickle import PickleBuffer

from falcon.asgi import Request

from mlxctl.errors import InvalidRequest, QueueFull, UnknownResource
from mlxctl.inference import InferenceService
from mlxctl.inference.preparation import PackedRequest
from mlxctl.protocols import AgentTurnFormatter
from mlxctl.server.disconnect import call_at_end
from mlxctl.server.generation import GenerationResource, ParsedRequest
from mlxctl.server.open_requests import OpenHttpRequests
from mlxctl.settings import ServerSettings
from mlxctl.stores import AgentStores

_TRY_AGAIN_SECONDS = 2.0

AgentKey = tuple[str, str]
"""Whose agent, and its id."""


@dataclass(slots=True)
class _Turns:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    num_waiting: int = 0


class AgentQueue:
    """Runs each agent's turns one at a time, in arrival order.

    Holds no entry for idle agents. Event-loop thread only.
    """

    def __init__(self, *, max_waiting: int) -> None:
        self._max_waiting = max_waiting
        self._turns: dict[AgentKey, _Turns] = {}

    async def enter(self, key: AgentKey) -> Callable[[], None]:
        """Wait for the turn.

        Returns a callback that ends it, to be called once. Raises QueueFull if too many turns wait already.
        """
        turns = self._turns.setdefault(key, _Turns())
        if turns.lock.locked() and turns.num_waiting >= self._max_waiting:
            raise QueueFull(
                f"{turns.num_waiting} turns of agent {key[1]!r} are waiting already",
                retry_after_seconds=_TRY_AGAIN_SECONDS,
            )
        turns.num_waiting += 1
        try:
            await turns.lock.acquire()
        finally:
            turns.num_waiting -= 1
            self._forget(key, turns)

        def leave() -> None:
            turns.lock.release()
            self._forget(key, turns)

        return leave

    def _forget(self, key: AgentKey, turns: _Turns) -> None:
        if not turns.num_waiting and not turns.lock.locked():
            self._turns.pop(key, None)


class AgentTurnResource(GenerationResource[AgentTurnFormatter]):
    """Generates with the stored history and appends the turn to it.

    The turn is stored before the end of the answer is sent. Nothing is stored if the client disconnects
    earlier, after an error, or if the agent was reset or deleted meanwhile.
    """

    def __init__(
        self,
        inference: InferenceService,
        store: AgentStores,
        open_requests: OpenHttpRequests,
        settings: ServerSettings,
    ) -> None:
        super().__init__(inference, AgentTurnFormatter, open_requests, settings)
        self._store = store
        self._queue = AgentQueue(max_waiting=settings.agent_queue)

    async def parse(
        self, formatter: AgentTurnFormatter, body: bytes | bytearray, request: Request
    ) -> ParsedRequest:
        """Parse the body; the returned request waits for the agent's earlier turns.

        Raises RequestError, QueueFull.
        """
        num_new_bytes, streams = await self._inference.preparation.parse_with(formatter, "outline", body)
        return ParsedRequest(
            stream=streams, request=partial(self._wait, formatter, body, num_new_bytes, request)
        )

    async def _wait(
        self, formatter: AgentTurnFormatter, body: bytes | bytearray, num_new_bytes: int, request: Request
    ) -> PackedRequest:
        """Wait for the agent's turn and return the request with its history."""
        caller: str = request.context.caller
        call_at_end(request.scope, await self._queue.enter((caller, formatter.agent_id)))
        begun = await asyncio.to_thread(self._store.begin_turn, caller, formatter.agent_id)
        if begun is None:
            raise unknown_agent(formatter.agent_id)
        agent, history = begun
        if len(agent.settings) + agent.num_bytes + num_new_bytes > self._settings.agent_history_bytes:
            raise InvalidRequest(
                f"the history of agent {agent.id!r}, with its instructions and tools, would be larger than "
                f"{self._settings.agent_history_bytes} bytes; reset it",
                param="messages",
                code="agent_history_full",
            )
        packed: PackedRequest = await self._inference.preparation.run_with(
            formatter,
            "parse_again",
            PickleBuffer(body),
            agent,
            history,
            num_bytes=agent.num_bytes + len(body),
        )
        return packed

    async def ended(self, formatter: AgentTurnFormatter, caller: str) -> None:  # noqa: ARG002
        """Append the turn to the history.

        Raises Conflict, StoreError; the answer then fails, since no history has it.
        """
        await asyncio.to_thread(
            self._store.end_turn, formatter.agent, formatter.new_messages, model=formatter.model
        )


def unknown_agent(agent_id: str) -> UnknownResource:
    """Return the error for an unknown agent id.

    Or for one of another caller.
    """
    return UnknownResource(f"there is no agent with the id {agent_id!r}")
