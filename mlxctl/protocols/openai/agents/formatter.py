"""Formatter of an agent's turn: a chat completion with stored history."""

from collections.abc import Sequence
from dataclasses import replace

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
from mlxctl.protocols.openai.agents.schema import AgentSettings, AgentTurn
from mlxctl.protocols.openai.chat import OpenAIChatFormatter
from mlxctl.protocols.openai.chat_parsing import check_supported, to_generation_request, translate_messages
from mlxctl.protocols.openai.chat_schema import ChatAssistantMessage, ChatMessage, ChatRequest

_DECODER = msgspec.json.Decoder(AgentTurn)
_SETTINGS = msgspec.json.Decoder(AgentSettings)
_HISTORY = msgspec.json.Decoder(ChatMessage)
_encode = msgspec.json.Encoder().encode


class AgentTurnFormatter(OpenAIChatFormatter):
    """Formatter of one turn: `read` takes the body, `translate` the stored agent.

    After the end, `new_messages` are the messages to append to the history of `agent`, as JSON, and `model`
    is the model that answered.
    """

    def __init__(self, *, agent_id: str) -> None:
        super().__init__()
        self.agent_id = agent_id
        self.new_messages: tuple[bytes, ...] = ()
        self._collector = Collector()

    def outline(self, body: bytes) -> tuple[int, bool]:
        """Return what `read` does and whether to stream; keep nothing. Raises InvalidRequest."""
        num_bytes, streams = self.read(body), self.streams
        del self._turn, self._new
        return num_bytes, streams

    def parse_again(self, body: bytes, agent: StoredAgent, history: Sequence[bytes]) -> GenerationRequest:
        """Read and translate; keep nothing that is not needed later. Raises InvalidRequest."""
        self.read(body)
        request = self.translate(agent, history)
        del self._turn
        return request

    def read(self, body: bytes) -> int:
        """Decode a body. Raises InvalidRequest.

        Returns the stored size of its messages in bytes.
        """
        self._turn = decode_body(body, _DECODER)
        if (self._turn.n or 1) > 1:
            raise InvalidRequest("n must be 1: an agent continues from one answer", param="n")
        check_supported(self._turn)
        self._new = tuple(_encode(message) for message in self._turn.messages)
        return sum(map(len, self._new))

    @property
    def streams(self) -> bool:
        """Whether the answer is streamed; known after `read`."""
        return bool(self._turn.stream)

    def translate(self, agent: StoredAgent, history: Sequence[bytes]) -> GenerationRequest:
        """Return the request with its history. Raises InvalidRequest."""
        self.agent = agent
        settings = _SETTINGS.decode(agent.settings)
        self._turn.model = self._turn.model or agent.model
        if self._turn.tools is None:
            self._turn.tools = settings.tools
        self._turn.cache_salt = self._turn.cache_salt or settings.cache_salt
        before = conversation(settings, history)
        request = to_generation_request(self._turn, before=before)
        self.adopt(self._turn, request)
        return replace(
            request,
            cache=replace(request.cache, session_id=request.cache.session_id or agent.id),
            context_overflow=self._turn.context_overflow or settings.context_overflow,
            max_context_tokens=settings.max_context,
        )

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
        self.new_messages = (*self._new, _encode(answer))


def stored_conversation(agent: StoredAgent, history: Sequence[bytes]) -> GenerationRequest:
    """Return the request that starts an agent's next turn."""
    settings = _SETTINGS.decode(agent.settings)
    turn = ChatRequest(model=agent.model, messages=[], tools=settings.tools, cache_salt=settings.cache_salt)
    return to_generation_request(turn, before=conversation(settings, history))


def conversation(settings: AgentSettings, history: Sequence[bytes]) -> tuple[Message, ...]:
    """Return the messages so far, the agent's instructions first."""
    first = (text_message("system", settings.instructions),) if settings.instructions else ()
    return first + translate_messages([_HISTORY.decode(body) for body in history])
