"""Input items to messages; consecutive items of the assistant become one message.

The request's own items are also prepared for the store, with an id and the shape in which they are listed.
"""

from collections.abc import Iterable, Sequence
from typing import Any, assert_never

import msgspec

from mlxctl.ir import (
    AudioPart,
    ImagePart,
    Message,
    Part,
    RemoteImagePart,
    Role,
    ShownPart,
    StoredItem,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols.decoding import check_nesting, decode_json, decode_part
from mlxctl.protocols.media import audio_from_base64, file_parts, image_from_url
from mlxctl.protocols.openai.freeform import freeform_arguments
from mlxctl.protocols.openai.responses import schema
from mlxctl.protocols.openai.responses.client_tools import CLIENT_TOOL_PREFIXES, client_tool_part
from mlxctl.protocols.openai.responses.tools import full_name
from mlxctl.protocols.thinking_signature import thinking_from_signature
from mlxctl.protocols.tool_checks import check_result_id
from mlxctl.protocols.validation_errors import missing
from mlxctl.protocols.video_parts import InputVideoPart, QwenVideoPart, VideoUrlPart, video_of

_MAX_ID_CHARS = 256
_TYPE_TAG = msgspec.json.Decoder(schema.TypeTag)
_REFERENCE = msgspec.json.Decoder(schema.ItemReference)
_KINDS: dict[str, msgspec.json.Decoder[Any]] = {
    "message": msgspec.json.Decoder(schema.ResponsesMessage),
    "function_call": msgspec.json.Decoder(schema.ResponsesFunctionCall),
    "function_call_output": msgspec.json.Decoder(schema.ResponsesCallOutput),
    "custom_tool_call": msgspec.json.Decoder(schema.ResponsesCustomCall),
    "custom_tool_call_output": msgspec.json.Decoder(schema.ResponsesCallOutput),
    "reasoning": msgspec.json.Decoder(schema.ResponsesReasoning),
    "compaction": msgspec.json.Decoder(schema.ResponsesCompaction),
}
# Items of OpenAI's own tools and services, which are dropped from a history.
UNSUPPORTED_ITEM_TYPES = frozenset(
    {
        "code_interpreter_call", "compaction_trigger", "computer_call", "computer_call_output",
        "configuration_update", "file_search_call", "image_generation_call", "mcp_approval_request",
        "mcp_approval_response", "mcp_call", "mcp_list_tools", "program", "program_output",
        "tool_search_call", "tool_search_output", "web_search_call",
    }
)  # fmt: skip
ADDITIONAL_TOOLS = "additional_tools"
"""The type of an item that is no part of the conversation: it offers tools."""

_ID_PREFIXES = {
    "message": "msg",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
    "reasoning": "rs",
    "compaction": "cmp",
    **CLIENT_TOOL_PREFIXES,
}


def item_type(item: msgspec.Raw, path: str) -> str:
    """Return the type of an item; messages and references may omit it.

    Raises InvalidRequest.
    """
    tagged = decode_part(item, _TYPE_TAG, path)
    kind = tagged.type or ("item_reference" if tagged.role is None else "message")
    if kind in _ID_PREFIXES or kind in UNSUPPORTED_ITEM_TYPES or kind in ("item_reference", ADDITIONAL_TOOLS):
        return kind
    known = ", ".join(map(repr, [*_ID_PREFIXES, "item_reference"]))
    raise InvalidRequest(
        f"{path}.type is {kind!r}, which is not supported here; use one of: {known}", param=f"{path}.type"
    )


def referred_id(item: msgspec.Raw, path: str) -> str:
    """Return the id in an item_reference. Raises InvalidRequest."""
    return decode_part(item, _REFERENCE, path).id


def stored_item(item: msgspec.Raw, kind: str, path: str, fallback_id: str) -> StoredItem:
    """Return an item in its stored shape. Raises InvalidRequest.

    An item without an id gets one made of `fallback_id`.
    """
    fields: dict[str, Any] = decode_json(item)
    check_nesting(fields, path)
    item_id = fields.get("id")
    if not isinstance(item_id, str) or not item_id:
        item_id = f"{_ID_PREFIXES[kind]}_{fallback_id}"
    if len(item_id) > _MAX_ID_CHARS:
        raise InvalidRequest(
            f"{path}.id has {len(item_id)} characters; it may have {_MAX_ID_CHARS}", param=f"{path}.id"
        )
    fields |= {"id": item_id, "type": kind}
    if kind == "reasoning":
        fields["summary"] = fields.get("summary") or []
    elif kind != "compaction":
        fields["status"] = fields.get("status") or "completed"
    if kind == "message" and isinstance(fields["content"], str):
        is_answer = fields["role"] == "assistant"
        text = {"type": "output_text" if is_answer else "input_text", "text": fields["content"]}
        fields["content"] = [text | {"annotations": []} if is_answer else text]
    return StoredItem(id=item_id, body=msgspec.json.encode(fields))


class ResponsesConversation:
    """Translates one conversation; tool results must answer an earlier call."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._answer: list[Part] = []
        self._call_ids: set[str] = set()

    def add(self, item: msgspec.Raw, kind: str, path: str) -> None:
        """Add an item. Raises InvalidRequest."""
        if kind in CLIENT_TOOL_PREFIXES:
            self._add_client_tool(client_tool_part(item, kind, path), path)
            return
        match decode_part(item, _KINDS[kind], path):
            case schema.ResponsesMessage(role="assistant") as message:
                self._answer.extend(_content(message.content, f"{path}.content"))
            case schema.ResponsesMessage() as message:
                role: Role = "user" if message.role == "user" else "system"
                self._add_message(
                    Message(role=role, parts=tuple(_content(message.content, f"{path}.content")))
                )
            case schema.ResponsesFunctionCall() as call:
                self._call_ids.add(call.call_id)
                name = full_name(call.name, call.namespace)
                self._answer.append(ToolCallPart(id=call.call_id, name=name, arguments=call.arguments))
            case schema.ResponsesCustomCall() as call:
                self._call_ids.add(call.call_id)
                name = full_name(call.name, call.namespace)
                self._answer.append(
                    ToolCallPart(id=call.call_id, name=name, arguments=freeform_arguments(call.input))
                )
            case schema.ResponsesCallOutput() as result:
                check_result_id(result.call_id, self._call_ids, path=f"{path}.call_id")
                content = [
                    part
                    for part in _content(result.output, f"{path}.output")
                    if not isinstance(part, AudioPart)
                ]
                self._add_result(ToolResultPart(call_id=result.call_id, content=tuple(content)))
            case schema.ResponsesCompaction(encrypted_content=content):
                summary = thinking_from_signature(content)
                if not summary:
                    raise InvalidRequest(
                        f"{path}.encrypted_content was not made by this server; send the messages instead",
                        param=f"{path}.encrypted_content",
                    )
                text = f"Summary of the conversation so far:\n{summary}"
                self._add_message(Message(role="user", parts=(TextPart(text=text),)))
            case schema.ResponsesReasoning() as reasoning:
                if thinking := _thinking(reasoning):
                    self._answer.append(ThinkingPart(text=thinking))

    def add_user_text(self, text: str) -> None:
        """Add an input that is a plain text."""
        self._add_message(Message(role="user", parts=(TextPart(text=text),) if text else ()))

    def messages(self) -> tuple[Message, ...]:
        """Return all messages of the conversation."""
        self._end_answer()
        return tuple(self._messages)

    def _add_client_tool(self, part: ToolCallPart | ToolResultPart, path: str) -> None:
        if isinstance(part, ToolCallPart):
            self._call_ids.add(part.id)
            self._answer.append(part)
            return
        check_result_id(part.call_id, self._call_ids, path=f"{path}.call_id")
        self._add_result(part)

    def _add_result(self, result: ToolResultPart) -> None:
        self._add_message(Message(role="tool", parts=(result,)))

    def _add_message(self, message: Message) -> None:
        self._end_answer()
        self._messages.append(message)

    def _end_answer(self) -> None:
        if self._answer:
            self._messages.append(Message(role="assistant", parts=tuple(self._answer)))
            self._answer = []


def _thinking(reasoning: schema.ResponsesReasoning) -> str:
    """Return the verbatim thinking, else the one in `encrypted_content`, else the summary."""
    verbatim = "".join(thought.text for thought in reasoning.content or ())
    return (
        verbatim
        or thinking_from_signature(reasoning.encrypted_content)
        or "".join(part.text for part in reasoning.summary or ())
    )


def _content(content: str | Sequence[schema.Content], path: str) -> Iterable[ShownPart | AudioPart]:
    """Yield the non-empty parts; a string equals a list of one text."""
    parts: Sequence[schema.Content] = (
        (schema.InputText(text=content),) if isinstance(content, str) else content
    )
    for index, part in enumerate(parts):
        match part:
            case schema.InputText():
                if part.text:
                    yield TextPart(text=part.text)
            case schema.InputImage():
                yield _image(part, f"{path}[{index}]")
            case schema.InputAudio(input_audio=sound):
                yield audio_from_base64(sound.data, sound.format, f"{path}[{index}].input_audio")
            case schema.InputFile():
                yield from _file(part, f"{path}[{index}]")
            case VideoUrlPart() | QwenVideoPart() | InputVideoPart():
                yield video_of(part, f"{path}[{index}]")
            case schema.ResponsesRefusal():
                pass
            case _:
                assert_never(part)


def _file(part: schema.InputFile, path: str) -> Iterable[ShownPart]:
    if part.file_url is not None:
        raise InvalidRequest(
            f"{path}.file_url is not supported: files are not fetched; send file_data",
            param=f"{path}.file_url",
        )
    return file_parts(part.file_data, part.filename, path, file_id=part.file_id)


def _image(part: schema.InputImage, path: str) -> ImagePart | RemoteImagePart:
    if part.file_id is not None:
        raise InvalidRequest(
            f"{path}.file_id is not supported: there are no uploaded files; send a data URL",
            param=f"{path}.file_id",
        )
    if part.image_url is None:
        raise missing(f"{path}.image_url")
    return image_from_url(part.image_url, f"{path}.image_url")
