"""POST /v1/agents/{id}/generate: a turn of an agent's stored conversation.

A turn that fails leaves the history unchanged.
"""

import asyncio
from functools import partial
from pickle import PickleBuffer

from falcon.asgi import Request

from mlxctl.inference import InferenceService
from mlxctl.inference.preparation import PackedRequest
from mlxctl.ir.errors import InvalidRequest, UnknownResource
from mlxctl.protocols import AgentTurnFormatter
from mlxctl.server.http.disconnect import call_at_end
from mlxctl.server.http.open_requests import OpenHttpRequests
from mlxctl.server.resources.agents.agent_queue import AgentQueue
from mlxctl.server.resources.generation.generation import GenerationResource, ParsedRequest
from mlxctl.state.settings import ServerSettings
from mlxctl.state.stores import AgentStores


class AgentTurnResource(GenerationResource[AgentTurnFormatter]):
    """Generates with the stored history and appends the turn to it.

    The turn is stored before the end of the answer is sent. Nothing is stored if the client disconnects
    earlier, after an error, or if the agent was reset or deleted meanwhile.
    """

    def __init__(
        self,
        inference: InferenceService,
        store: AgentStores,
        queue: AgentQueue,
        open_requests: OpenHttpRequests,
        settings: ServerSettings,
    ) -> None:
        super().__init__(inference, AgentTurnFormatter, open_requests, settings)
        self._store = store
        self._queue = queue

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

    async def ended(self, formatter: AgentTurnFormatter, request: Request) -> None:  # noqa: ARG002
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
