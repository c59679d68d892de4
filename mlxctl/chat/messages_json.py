"""Conversations as OpenAI chat messages, for exported files and saved chats.

Questions may have the additional field `shown`, answers `reasoning_content`, `is_partial`, `thinking_seconds`
and `statistics`.
"""

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from mlxctl.chat.answer_statistics import AnswerStatistics
from mlxctl.chat.attachments import Attachment, attached_to
from mlxctl.chat.conversation import ChatMessage
from mlxctl.ir import (
    AudioPart,
    ImagePart,
    Message,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    VideoPart,
)
from mlxctl.ir.errors import InvalidRequest, StoreError
from mlxctl.ir.images import video_media_type


def to_messages(chat: Sequence[ChatMessage]) -> list[dict[str, Any]]:
    """Return chat messages; images, videos and PDF files become data URLs."""
    return [message for item in chat for message in _encode_message(item)]


def from_messages(messages: object) -> tuple[str, list[ChatMessage]]:
    """Return the system prompt ("" for none) and the conversation.

    Raises StoreError naming the invalid message.
    """
    if not isinstance(messages, list):
        raise StoreError("messages: expected a list")
    system: list[str] = []
    chat: list[ChatMessage] = []
    for index, message in enumerate(messages):
        try:
            role = message["role"]
            if role in ("system", "developer"):
                system.append(_text(message["content"]))
            elif role == "tool" and chat and chat[-1].message.role == "tool":
                chat[-1] = _join(chat[-1], _read(message))
            else:
                chat.append(_read(message))
        except (
            KeyError,
            TypeError,
            ValueError,
            AttributeError,
            InvalidRequest,
            msgspec.ValidationError,
        ) as error:
            raise StoreError(f"messages[{index}] is not a chat message: {_reason(error)}") from None
    return "\n\n".join(system), chat


def _encode_message(item: ChatMessage) -> Iterable[dict[str, Any]]:
    message = item.message
    if message.role == "tool":
        for result in message.tool_results:
            yield {"role": "tool", "tool_call_id": result.call_id, "content": result.text}
        return
    body: dict[str, Any] = {"role": message.role, "content": _content(message)}
    if item.shown is not None:
        body["shown"] = item.shown
    if message.thinking:
        body["reasoning_content"] = message.thinking
    if item.thinking_seconds is not None:
        body["thinking_seconds"] = round(item.thinking_seconds, 3)
    if message.tool_calls:
        body["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if item.is_partial:
        body["is_partial"] = True
    if item.statistics is not None:
        body["statistics"] = msgspec.to_builtins(item.statistics)
    yield body


def _content(message: Message) -> str | list[dict[str, Any]]:
    attached = attached_to(message.parts)
    if not attached:
        return message.text
    return [*map(_attached, attached), {"type": "text", "text": message.text}]


def _attached(part: Attachment) -> dict[str, Any]:
    if isinstance(part, VideoPart):
        (file,) = part.files
        url = f"data:{video_media_type(file)};base64,{base64.b64encode(file).decode()}"
        return {"type": "video_url", "video_url": {"url": url}}
    data = base64.b64encode(part.data).decode()
    if isinstance(part, ImagePart):
        return {"type": "image_url", "image_url": {"url": f"data:{part.media_type};base64,{data}"}}
    if isinstance(part, AudioPart):
        return {"type": "input_audio", "input_audio": {"data": data, "format": part.format}}
    return {
        "type": "file",
        "file": {"filename": part.filename, "file_data": f"data:application/pdf;base64,{data}"},
    }


def _read(message: Mapping[str, Any]) -> ChatMessage:
    parts: list[Part] = []
    match message["role"]:
        case "user":
            parts += _question(message["content"])
        case "assistant":
            if thinking := message.get("reasoning_content"):
                parts.append(ThinkingPart(text=_string(thinking)))
            if text := _text(message.get("content") or ""):
                parts.append(TextPart(text=text))
            parts += [_call(call) for call in message.get("tool_calls") or ()]
        case "tool":
            content = (TextPart(text=_text(message["content"])),)
            parts.append(ToolResultPart(call_id=_string(message["tool_call_id"]), content=content))
        case role:
            raise ValueError(f"unknown role {role!r}")
    seconds, statistics = message.get("thinking_seconds"), message.get("statistics")
    shown = message.get("shown")
    return ChatMessage(
        message=Message(role=message["role"], parts=tuple(parts)),
        shown=None if shown is None else _string(shown),
        is_partial=message.get("is_partial") is True,
        thinking_seconds=None if seconds is None else float(seconds),
        statistics=None if statistics is None else msgspec.convert(statistics, AnswerStatistics),
    )


def _join(first: ChatMessage, second: ChatMessage) -> ChatMessage:
    return ChatMessage(message=Message(role="tool", parts=first.message.parts + second.message.parts))


def _call(call: Mapping[str, Any]) -> ToolCallPart:
    function = call["function"]
    return ToolCallPart(
        id=_string(call["id"]), name=_string(function["name"]), arguments=_string(function["arguments"])
    )


def _question(content: object) -> Iterable[Part]:
    # PERF: only chats with attachments need the protocols package; not imported before the first frame.
    from mlxctl.protocols.media import audio_from_base64, document_from_data_url, image_from_data_url
    from mlxctl.protocols.video_parts import VideoOptions, video_from_data_url

    texts = []
    for part in content if isinstance(content, list) else []:
        match part["type"]:
            case "image_url":
                yield image_from_data_url(_string(part["image_url"]["url"]), "image_url")
            case "video_url":
                yield video_from_data_url(_string(part["video_url"]["url"]), "video_url", VideoOptions())
            case "input_audio":
                sound = part["input_audio"]
                yield audio_from_base64(_string(sound["data"]), _string(sound["format"]), "input_audio")
            case "file":
                document = document_from_data_url(_string(part["file"]["file_data"]), "file_data")
                name = part["file"].get("filename")
                yield document if name is None else replace(document, param=_string(name), filename=name)
            case _:
                texts.append(part)
    yield TextPart(text=_text(texts if isinstance(content, list) else content))


def _text(content: object) -> str:
    """Return the content as text; other parts are errors."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list) or not all(
        isinstance(part, dict) and part.get("type") == "text" for part in content
    ):
        raise ValueError("its content is not text")
    return "".join(_string(part["text"]) for part in content)


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected a text, not {value!r}")  # noqa: TRY004 -- the caller handles ValueError
    return value


def _reason(error: Exception) -> str:
    match error:
        case KeyError():
            return f"it has no {error.args[0]!r}"
        case TypeError() | AttributeError():
            return "it is not an object with a role and content"
        case _:
            return str(error)
