"""Protocols in which another server generates text."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from mlxctl.inference.remote.chunks import ChunkReader
from mlxctl.inference.remote.message_events import MessageReader
from mlxctl.inference.remote.messages_body import messages_body
from mlxctl.inference.remote.request_body import chat_body
from mlxctl.ir import GenerationRequest, StreamEvent, Usage


class EventReader(Protocol):
    """Parser of one stream of server-sent events. Pure.

    `is_over` once an event has ended the stream. `usage` is what is known so far.
    """

    is_over: bool
    usage: Usage

    def comment(self, text: bytes) -> list[StreamEvent]:
        """Return the events of an SSE comment."""

    def data(self, body: bytes) -> list[StreamEvent]:
        """Return the events of one chunk. Raises SequenceFailed, ConnectionLost."""

    def finish(self) -> list[StreamEvent]:
        """Return the last events. Raises ConnectionLost for an answer without an end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatProtocol:
    """Route below `/v1`, body and answer of a streamed generation.

    `body` raises InvalidRequest for options that it cannot carry.
    """

    path: str
    body: Callable[[GenerationRequest], dict[str, Any]]
    create_reader: Callable[[], EventReader]
    key_headers: Callable[[str], dict[str, str]]
    headers: tuple[tuple[str, str], ...] = ()


OPENAI = ChatProtocol(
    path="chat/completions",
    body=chat_body,
    create_reader=ChunkReader,
    key_headers=lambda key: {"Authorization": f"Bearer {key}"},
)
ANTHROPIC = ChatProtocol(
    path="messages",
    body=messages_body,
    create_reader=MessageReader,
    key_headers=lambda key: {"x-api-key": key},
    headers=(("anthropic-version", "2023-06-01"),),
)
