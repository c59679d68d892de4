"""Events that a client sends."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols.decoding import decode_body
from mlxctl.protocols.openai.realtime.items import CallItem, CallOutputItem, ItemReference, MessageItem
from mlxctl.protocols.openai.realtime.session import AnsweringPatch, SessionPatch

MAX_AUDIO_BYTES = 15 << 20
"""Most audio of one append, as at OpenAI."""


class _Event(Struct, kw_only=True, tag_field="type"):
    event_id: Annotated[str, Meta(max_length=512)] | None = None


class SessionUpdate(_Event, kw_only=True, tag="session.update"):
    """Change the configuration."""

    session: SessionPatch


class AudioAppend(_Event, kw_only=True, tag="input_audio_buffer.append"):
    """More audio, which JSON has in base64."""

    audio: Annotated[bytes, Meta(max_length=MAX_AUDIO_BYTES)]


class AudioCommit(_Event, kw_only=True, tag="input_audio_buffer.commit"):
    """Make an item of the audio."""


class AudioClear(_Event, kw_only=True, tag="input_audio_buffer.clear"):
    """Forget the audio."""


class ItemCreate(_Event, kw_only=True, tag="conversation.item.create"):
    """Add an item."""

    item: MessageItem | CallItem | CallOutputItem
    previous_item_id: str | None = None


class ItemRetrieve(_Event, kw_only=True, tag="conversation.item.retrieve"):
    """Show an item."""

    item_id: str


class ItemTruncate(_Event, kw_only=True, tag="conversation.item.truncate"):
    """Cut an answer to what the user has heard."""

    item_id: str
    content_index: Annotated[int, Meta(ge=0)]
    audio_end_ms: Annotated[int, Meta(ge=0)]


class ItemDelete(_Event, kw_only=True, tag="conversation.item.delete"):
    """Remove an item."""

    item_id: str


class ResponseParameters(AnsweringPatch, kw_only=True):
    """What one response does differently from the session."""

    conversation: Literal["auto", "none"] | None = None
    input: list[MessageItem | CallItem | CallOutputItem | ItemReference] | None = None
    metadata: dict[str, str] | None = None


class ResponseCreate(_Event, kw_only=True, tag="response.create"):
    """Begin an answer."""

    response: ResponseParameters | None = None


class ResponseCancel(_Event, kw_only=True, tag="response.cancel"):
    """End an answer; without an id, that of the conversation."""

    response_id: str | None = None


ClientEvent = (
    SessionUpdate
    | AudioAppend
    | AudioCommit
    | AudioClear
    | ItemCreate
    | ItemRetrieve
    | ItemTruncate
    | ItemDelete
    | ResponseCreate
    | ResponseCancel
)
_DECODER = msgspec.json.Decoder(ClientEvent)
_ID = msgspec.json.Decoder(dict[str, Any])


def parse_event(message: bytes) -> ClientEvent:
    """Parse a message. Raises InvalidRequest."""
    try:
        event: ClientEvent = decode_body(message, _DECODER)
    except InvalidRequest as error:
        code = error.code or ("invalid_json" if error.param is None else "invalid_value")
        text = str(error).replace("the request body", "the event", 1)
        raise InvalidRequest(text, param=error.param, code=code) from error
    return event


def event_id_of(message: bytes) -> str | None:
    """Return the id of a bad event, if it can be read."""
    try:
        event_id = _ID.decode(message).get("event_id")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return event_id[:512] if isinstance(event_id, str) else None
