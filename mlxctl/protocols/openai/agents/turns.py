"""An agent's turn: a chat completion with stored history."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from mlxctl.ir import (
    Collector,
    GenerationRequest,
    Message,
    StoredAgent,
    StreamEvent,
    TextResult,
    text_message,
)
from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols.decoding import decode_body
from mlxctl.protocols.encoder import Reference
from mlxctl.protocols.openai.agents.schema import AgentSettings, AgentTurn
from mlxctl.protocols.openai.chat import ChatEncoder, ChatShape
from mlxctl.protocols.openai.chat_parsing import check_supported, to_generation_request, translate_messages
from mlxctl.protocols.openai.chat_schema import ChatAssistantMessage, ChatMessage, ChatRequest

_DECODER = msgspec.json.Decoder(AgentTurn)
_SETTINGS = msgspec.json.Decoder(AgentSettings)
_HISTORY = msgspec.json.Decoder(ChatMessage)
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredHistory:
    """An agent with the messages so far, as JSON."""

    agent: StoredAgent
    messages: Sequence[bytes]

    @property
    def num_bytes(self) -> int:
        """Size of the messages in bytes."""
        return self.agent.num_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnShape(ChatShape):
    """The shape of an agent's turn.

    `new_messages` are those of the request, as JSON.
    """

    new_messages: tuple[bytes, ...] = ()


def parse_turn(body: bytes) -> tuple[Reference, TurnShape]:
    """Read what a turn needs of its agent. Raises InvalidRequest."""
    turn = _decode(body)
    num_bytes = sum(len(_encode(message)) for message in turn.messages)
    model = turn.model or ""
    outline = msgspec.structs.replace(turn, messages=[], tools=None, model=model)
    shape = TurnShape.of(outline, GenerationRequest(model=model))
    return Reference(stream=bool(turn.stream), num_new_bytes=num_bytes), shape


def parse_turn_with(body: bytes, stored: StoredHistory) -> tuple[GenerationRequest, TurnShape]:
    """Parse a turn with its agent's history. Raises InvalidRequest."""
    turn, agent = _decode(body), stored.agent
    settings = _SETTINGS.decode(agent.settings)
    turn = msgspec.structs.replace(
        turn,
        model=turn.model or agent.model,
        tools=settings.tools if turn.tools is None else turn.tools,
        cache_salt=turn.cache_salt or settings.cache_salt,
    )
    request = to_generation_request(turn, before=conversation(settings, stored.messages))
    shape = TurnShape.of(turn, request, new_messages=tuple(map(_encode, turn.messages)))
    request = replace(
        request,
        cache=replace(request.cache, session_id=request.cache.session_id or agent.id),
        context_overflow=turn.context_overflow or settings.context_overflow,
        max_context_tokens=settings.max_context,
    )
    return request, shape


def _decode(body: bytes) -> AgentTurn:
    turn = decode_body(body, _DECODER)
    if (turn.n or 1) > 1:
        raise InvalidRequest("n must be 1: an agent continues from one answer", param="n")
    check_supported(turn)
    return turn


class TurnEncoder(ChatEncoder):
    """Writes one turn as a chat completion.

    After the end, `new_messages` are the messages to append to the history, as JSON; `model` is the model
    that answers.
    """

    def __init__(self, shape: TurnShape) -> None:
        super().__init__(shape)
        self.new_messages: tuple[bytes, ...] = ()
        self._asked = shape.new_messages
        self._collector = Collector()

    def on_event(self, event: StreamEvent, number: int = 0) -> bytes:
        """Return the chunk for `event`."""
        self._collector.add(event)
        return super().on_event(event, number)

    def finish(self) -> bytes:
        """Return the end of the stream."""
        self._keep(self._collector.result())
        return super().finish()

    def whole(self, *results: TextResult) -> bytes:
        """Return the chat.completion object."""
        self._keep(results[0])
        return super().whole(*results)

    @property
    def model(self) -> str:
        """Name of the model that answers."""
        return self._model

    def _keep(self, result: TextResult) -> None:
        calls = [self._calls[0].replayed(call) for call in result.tool_calls]
        answer = ChatAssistantMessage(
            content=result.text or None, reasoning_content=result.thinking or None, tool_calls=calls or None
        )
        self.new_messages = (*self._asked, _encode(answer))


def stored_conversation(agent: StoredAgent, history: Sequence[bytes]) -> GenerationRequest:
    """Return the request that starts an agent's next turn."""
    settings = _SETTINGS.decode(agent.settings)
    turn = ChatRequest(model=agent.model, messages=[], tools=settings.tools, cache_salt=settings.cache_salt)
    return to_generation_request(turn, before=conversation(settings, history))


def conversation(settings: AgentSettings, history: Sequence[bytes]) -> tuple[Message, ...]:
    """Return the messages so far, the agent's instructions first."""
    first = (text_message("system", settings.instructions),) if settings.instructions else ()
    return first + translate_messages([_HISTORY.decode(body) for body in history])
