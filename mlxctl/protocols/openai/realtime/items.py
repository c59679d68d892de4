"""Items of a conversation, and the same items for a model."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from mlxctl.ir.errors import InvalidRequest

Status = Literal["completed", "incomplete", "in_progress"]
ItemId = Annotated[str, Meta(min_length=1, max_length=64)]

_CONTENT = {
    "user": ("input_text", "input_audio", "input_image"),
    "assistant": ("output_text", "output_audio"),
    "system": ("input_text",),
}
_UNANSWERED = "There is no result yet."


class Content(Struct, kw_only=True, omit_defaults=True):
    """A part of a message. `audio` is kept until it is transcribed."""

    type: Literal["input_text", "input_audio", "input_image", "output_text", "output_audio"]
    text: str | None = None
    audio: bytes | None = None
    transcript: str | None = None
    image_url: str | None = None
    detail: Literal["auto", "low", "high"] | None = None


class _Item(Struct, kw_only=True, tag_field="type"):
    id: ItemId | None = None
    status: Status = "completed"


class MessageItem(_Item, kw_only=True, tag="message"):
    """What user, model or system say."""

    role: Literal["user", "assistant", "system"]
    content: list[Content]


class CallItem(_Item, kw_only=True, tag="function_call"):
    """A call of a function; `arguments` is JSON text."""

    call_id: str
    name: str
    arguments: str = ""


class CallOutputItem(_Item, kw_only=True, tag="function_call_output"):
    """The result of a call."""

    call_id: str
    output: str


class ItemReference(Struct, kw_only=True, tag_field="type", tag="item_reference"):
    """An item of the conversation, in the input of a response."""

    id: str


Item = MessageItem | CallItem | CallOutputItem


def shown(item: Item) -> dict[str, Any]:
    """Return an item as events show it, without audio."""
    fields: dict[str, Any] = msgspec.to_builtins(item)
    for content in fields.get("content", ()):
        content.pop("audio", None)
        if content["type"] == "input_audio":
            content.setdefault("transcript", None)
    return fields | {"object": "realtime.item"}


def check_content(item: MessageItem, path: str) -> None:
    """Raise InvalidRequest for content that its role cannot have."""
    for place, part in enumerate(item.content):
        kinds, where = _CONTENT[item.role], f"{path}[{place}]"
        if part.type not in kinds:
            message = f"{where}.type is {part.type!r}; a message of role {item.role} has {' or '.join(kinds)}"
            raise InvalidRequest(message, param=f"{where}.type", code="invalid_value")
        if part.type != "input_audio" or part.transcript:
            part.audio = None
        needed = {"input_image": part.image_url, "input_audio": part.audio or part.transcript}
        if not needed.get(part.type, True):
            field = f"{where}.{'image_url' if part.type == 'input_image' else 'audio'}"
            raise InvalidRequest(f"{field} is missing", param=field, code="invalid_value")


def model_input(items: list[Item]) -> list[dict[str, Any]]:
    """Return items as the input of a Responses request.

    The result of a call follows it, wherever it came: chat templates know no other order.
    """
    outputs = {item.call_id: item.output for item in items if isinstance(item, CallOutputItem)}
    given: list[dict[str, Any]] = []
    for item in items:
        match item:
            case MessageItem() if content := [_content(part) for part in item.content if _has_content(part)]:
                given.append({"type": "message", "role": item.role, "content": content})
            case CallItem():
                call = {"call_id": item.call_id, "name": item.name, "arguments": item.arguments or "{}"}
                result = {"call_id": item.call_id, "output": outputs.get(item.call_id, _UNANSWERED)}
                given.append({"type": "function_call", **call})
                given.append({"type": "function_call_output", **result})
            case _:
                pass
    return given


def _has_content(part: Content) -> bool:
    return bool(part.text or part.transcript or part.image_url)


def _content(part: Content) -> dict[str, Any]:
    if part.type == "input_image":
        return {"type": part.type, "image_url": part.image_url, "detail": part.detail or "auto"}
    return {
        "type": "output_text" if part.type.startswith("output") else "input_text",
        "text": part.text or part.transcript,
    }
