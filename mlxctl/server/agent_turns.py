"""POST /v1/agents/{id}/generate: one turn of a conversation whose history is here.

What fails leaves the history as it was.
"""

import asyncio
from functools import partial
from pickle import PickleBuffer

from falcon.asgi import Request

from mlxctl.errors import InvalidRequest, UnknownResource
from mlxctl.inference import InferenceService
from mlxctl.inference.preparation import PackedRequest
from mlxctl.protocols import AgentTurnFormatter
from mlxctl.server.agent_queue import AgentQueue
from mlxctl.server.disconnect import call_at_end
from mlxctl.server.generation import GenerationResource, ParsedRequest
from mlxctl.server.open_requests import OpenRequests
from mlxctl.settings import ServerSettings
from mlxctl.stores import AgentStore


class AgentTurnResource(GenerationResource[AgentTurnFormatter]):
    """Generates with the history, and adds the new messages and the answer to it before the end of the answer
    is sent.

    A client that leaves before then, an error, and an agent that was reset or deleted meanwhile all mean that
    nothing is added.
    """

    def __init__(
        self,
        inference: InferenceService,
        store: AgentStore,
        open_requests: OpenRequests,
        settings: ServerSettings,
    ) -> None:
        super().__init__(inference, AgentTurnFormatter, open_requests, settings)
        self._store = store
        self._queue = AgentQueue(max_waiting=settings.agent_queue)

    async def parse(
        self, formatter: AgentTurnFormatter, body: bytes | bytearray, request: Request
    ) -> ParsedRequest:
        """Read the body; the request is there when the agent's earlier turns are over.

        Raises RequestError, QueueFull.
        """
        num_new_bytes, streams = await self._inference.preparation.parse_with(formatter, "outline", body)
        return ParsedRequest(
            stream=streams, request=partial(self._wait, formatter, body, num_new_bytes, request)
        )

    async def _wait(
        self, formatter: AgentTurnFormatter, body: bytes | bytearray, num_new_bytes: int, request: Request
    ) -> PackedRequest:
        """Wait for the agent, and put its history before the new messages."""
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
        """Add to the history.

        Raises Conflict, StoreError: the answer is not given then, for it is in no history.
        """
        await asyncio.to_thread(self._store.end_turn, formatter.agent, formatter.said, model=formatter.model)


def unknown_agent(agent_id: str) -> UnknownResource:
    """Return what to raise when the caller has no such agent."""
    return UnknownResource(f"there is no agent with the id {agent_id!r}")
