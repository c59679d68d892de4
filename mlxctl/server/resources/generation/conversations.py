"""Conversations that are stored between requests: one way to read them."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from falcon.asgi import Request

from mlxctl.ir import StoredItem, StoredResponse
from mlxctl.ir.errors import InvalidRequest, QueueFull, StoreError, UnknownResource
from mlxctl.protocols import Reference, StoredContext, StoredHistory
from mlxctl.protocols.openai.agents.turns import TurnEncoder
from mlxctl.protocols.openai.responses.encoder import ResponseEncoder
from mlxctl.protocols.wire_protocol import Threads
from mlxctl.server.http.disconnect import call_at_end
from mlxctl.server.middleware.body_memory import BodyAccount
from mlxctl.server.policy.caller import call_of
from mlxctl.server.resources.agents.agent_queue import AgentQueue
from mlxctl.state.stores import AgentStores, ResponseStore

_log = logging.getLogger(__name__)

UNSTORED_RESPONSE = "mlxctl.unstored_response"
"""Key of the UnstoredResponse in the ASGI scope of a connection's requests."""


class Stored(Protocol):
    """What is stored of a reference."""

    @property
    def num_bytes(self) -> int:
        """Size in bytes."""


class ThreadEncoder(Protocol):
    """An encoder whose `record`, after the end, is the turn to store."""

    record: StoredResponse | None


class Conversations(Protocol):
    """The stored conversations of one protocol."""

    async def read(self, reference: Reference, request: Request, names: Mapping[str, str]) -> Stored:
        """Return what a request refers to; `names` are its path parameters.

        Raises RequestError, QueueFull.
        """

    async def store(self, encoder: Any, stored: Any, request: Request) -> None:
        """Store an answer before its end is sent.

        `stored` is what was read for its request, None if it refers to nothing.
        """


class UnstoredResponse:
    """The latest response of a connection with `store: false`.

    Its conversation may have `max_bytes`, and counts in the connection's account; a larger one is dropped.
    """

    def __init__(self, account: BodyAccount, max_bytes: int) -> None:
        self._account = account
        self._max_bytes = max_bytes
        self._response_id: str | None = None
        self._conversation: tuple[StoredItem, ...] = ()

    def keep(self, record: StoredResponse, earlier: Sequence[StoredItem]) -> None:
        """Keep a response with its conversation; the last one is dropped."""
        self.drop()
        conversation = (*earlier, *record.input, *record.output)
        num_bytes = _num_bytes(conversation)
        if num_bytes > self._max_bytes:
            return
        with suppress(QueueFull):
            self._account.add(num_bytes)
            self._response_id, self._conversation = record.id, conversation

    def take(self, response_id: str) -> tuple[StoredItem, ...] | None:
        """Return the conversation of a response and forget it.

        As in Open Responses, a continuation that fails removes the response that it continues.
        """
        if response_id != self._response_id:
            return None
        conversation = self._conversation
        self.drop()
        return conversation

    def drop(self) -> None:
        """Forget the response."""
        self._account.remove(_num_bytes(self._conversation))
        self._response_id, self._conversation = None, ()


class ResponseConversations:
    """Responses, by id, and single items of them."""

    def __init__(self, store: ResponseStore) -> None:
        self._store = store

    async def read(
        self,
        reference: Reference,
        request: Request,
        names: Mapping[str, str],  # noqa: ARG002
    ) -> StoredContext:
        """Return what is stored of conversation and items. Raises QueueFull."""
        call, unstored = call_of(request), _unstored(request)
        conversation, items = None, dict[str, bytes]()
        if reference.previous_id is not None and unstored is not None:
            conversation = unstored.take(reference.previous_id)
        if reference.previous_id is not None and conversation is None:
            conversation = await asyncio.to_thread(
                self._store.conversation, call.owner, reference.previous_id
            )
        if reference.item_ids:
            items = await asyncio.to_thread(self._store.items, call.owner, reference.item_ids)
        context = StoredContext(conversation=conversation, items=items)
        request.context.body_account.add(context.num_bytes)
        return context

    async def store(self, encoder: ResponseEncoder, stored: StoredContext | None, request: Request) -> None:
        """Store the response that has ended, or keep it for its connection."""
        earlier = (stored.conversation if stored is not None else None) or ()
        unstored = _unstored(request)
        if encoder.shape.stores:
            if (record := encoder.record) is not None:
                await _store(self._store, call_of(request).owner, record, earlier=earlier)
        elif unstored is not None and (record := encoder.record) is not None:
            unstored.keep(record, earlier)


class ThreadConversations:
    """Turns of a protocol's threads, by the id of their answer."""

    def __init__(self, store: ResponseStore, threads: Threads) -> None:
        self._store = store
        self._threads = threads

    async def read(
        self,
        reference: Reference,
        request: Request,
        names: Mapping[str, str],  # noqa: ARG002
    ) -> StoredContext:
        """Return the conversation of an answer. Raises RequestError without one."""
        assert reference.previous_id is not None, "a turn continues one answer"
        stored = await asyncio.to_thread(
            self._store.conversation, self._owner(request), reference.previous_id
        )
        if not stored:
            raise self._threads.unknown(reference.previous_id)
        return StoredContext(conversation=stored)

    async def store(self, encoder: ThreadEncoder, stored: StoredContext | None, request: Request) -> None:  # noqa: ARG002
        """Store the turn that has ended, if it belongs to a thread."""
        if encoder.record is not None:
            await _store(self._store, self._owner(request), encoder.record)

    def _owner(self, request: Request) -> str:
        """Return the owner of a caller's threads, apart from its responses."""
        # SEC: an owner that no printable name of a key equals.
        return f"{self._threads.kind}\x1f{call_of(request).owner}"


class AgentConversations:
    """Histories of agents, of at most `max_bytes`.

    The turn of an agent waits for its earlier turns. It is stored before the end of the answer is sent.
    Nothing is stored if the client disconnects earlier, after an error, or if the agent was reset or deleted
    meanwhile.
    """

    def __init__(self, store: AgentStores, queue: AgentQueue, *, max_bytes: int) -> None:
        self._store = store
        self._queue = queue
        self._max_bytes = max_bytes

    async def read(self, reference: Reference, request: Request, names: Mapping[str, str]) -> StoredHistory:
        """Wait for the agent's turn and return its history. Raises RequestError, QueueFull."""
        owner, agent_id = call_of(request).owner, names["agent_id"]
        call_at_end(request.scope, await self._queue.enter((owner, agent_id)))
        begun = await asyncio.to_thread(self._store.begin_turn, owner, agent_id)
        if begun is None:
            raise unknown_agent(agent_id)
        agent, history = begun
        if len(agent.settings) + agent.num_bytes + reference.num_new_bytes > self._max_bytes:
            raise InvalidRequest(
                f"the history of agent {agent.id!r}, with its instructions and tools, would be larger than "
                f"{self._max_bytes} bytes; reset it",
                param="messages",
                code="agent_history_full",
            )
        return StoredHistory(agent=agent, messages=history)

    async def store(self, encoder: TurnEncoder, stored: StoredHistory, request: Request) -> None:  # noqa: ARG002
        """Append the turn to the history.

        Raises Conflict, StoreError; the answer then fails, since no history has it.
        """
        await asyncio.to_thread(self._store.end_turn, stored.agent, encoder.new_messages, model=encoder.model)


def unknown_agent(agent_id: str) -> UnknownResource:
    """Return the error for an unknown agent id.

    Or for one of another caller.
    """
    return UnknownResource(f"there is no agent with the id {agent_id!r}")


def _unstored(request: Request) -> UnstoredResponse | None:
    unstored: UnstoredResponse | None = request.scope.get(UNSTORED_RESPONSE)
    return unstored


def _num_bytes(conversation: Sequence[StoredItem]) -> int:
    return sum(len(item.body) for item in conversation)


async def _store(
    store: ResponseStore, owner: str, record: StoredResponse, *, earlier: Sequence[StoredItem] = ()
) -> None:
    """Store a response; one that cannot be stored is only logged.

    Its answer is sent nevertheless.
    """
    try:
        await asyncio.to_thread(store.save, owner, record, earlier=earlier)
    except StoreError as error:
        _log.warning("a response was not stored: %s", error)
