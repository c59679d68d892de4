"""Anthropic's threads: conversations that the server stores between turns.

Each turn is stored under the id of its answer: the messages of the request and the answer. Before the first
turn's messages stand the fields that a thread fixes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from msgspec import Struct

from mlxctl.ir import StoredItem, StoredResponse
from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols.anthropic import content_blocks as blocks
from mlxctl.protocols.anthropic import messages_schema as schema
from mlxctl.protocols.anthropic.messages_answers import AnswerBlock

_FIXED_FIELDS = ("system", "tools")


class ThreadFields(Struct):
    """The fields that a thread takes from its first request."""

    system: str | list[blocks.AnthropicText] | None = None
    tools: list[schema.AnthropicTool] | None = None


_encode = msgspec.json.Encoder().encode
_FIELDS = msgspec.json.Decoder(ThreadFields)
_MESSAGE = msgspec.json.Decoder(schema.ConversationMessage)


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """What to store of a request: the `bodies` of its messages.

    `previous_id` is the answer before them in the thread.
    """

    previous_id: str | None
    bodies: tuple[bytes, ...]

    def answered(self, message_id: str, content: Sequence[AnswerBlock]) -> StoredResponse:
        """Return the turn with its answer, stored under the answer's id."""
        answer = _encode({"role": "assistant", "content": content})
        return StoredResponse(
            id=message_id,
            previous_id=self.previous_id,
            body=b"",
            input=tuple(
                StoredItem(id=f"{message_id}_{index}", body=body) for index, body in enumerate(self.bodies)
            ),
            output=(StoredItem(id=message_id, body=answer),),
        )


def stored_turn(request: schema.MessagesRequest) -> StoredTurn | None:
    """Return what to store of a request, None without a thread."""
    if request.thread is None:
        return None
    bodies = tuple(_encode(message) for message in request.messages)
    if isinstance(request.thread, schema.ContinueThread):
        return StoredTurn(request.thread.previous_message_id, bodies)
    return StoredTurn(None, (_encode(ThreadFields(request.system, request.tools)), *bodies))


def continued(
    request: schema.MessagesRequest, stored: Sequence[StoredItem]
) -> tuple[schema.MessagesRequest, list[schema.ConversationMessage]]:
    """Return the request with its thread's fields, and the thread's messages.

    Raises InvalidRequest when the request sets these fields again.
    """
    for name in _FIXED_FIELDS:
        if getattr(request, name) is not None:
            raise InvalidRequest(
                f"{name} belongs to the first request of a thread; leave it out, or create a new thread",
                param=name,
                code="thread_fingerprint_mismatch",
            )
    fields = _FIELDS.decode(stored[0].body)
    messages = [_MESSAGE.decode(item.body) for item in stored[1:]]
    return msgspec.structs.replace(request, system=fields.system, tools=fields.tools), messages
