"""Anthropic's messages to `ir` messages.

A user turn with tool results becomes tool messages and user messages, in order. So does an answer in which
Anthropic ran tools: their calls and results become separate messages.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, assert_never

import msgspec

from mlxctl.ir import (
    Message,
    Part,
    RemoteImagePart,
    ShownPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    ToolSpec,
    VideoPart,
)
from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols.anthropic import content_blocks as blocks
from mlxctl.protocols.anthropic import messages_schema as schema
from mlxctl.protocols.decoding import check_nesting, decode_json
from mlxctl.protocols.media import PDF, document_from_base64, document_tags, image_from_base64, image_from_url
from mlxctl.protocols.thinking_signature import thinking_from_signature
from mlxctl.protocols.tool_checks import check_result_id
from mlxctl.protocols.validation_errors import missing
from mlxctl.protocols.video_parts import video_from, video_from_base64

BlockType = TypeVar("BlockType")
UserBlock = (
    blocks.AnthropicText
    | blocks.AnthropicImage
    | blocks.AnthropicVideo
    | blocks.AnthropicDocument
    | blocks.SearchResult
    | blocks.AnthropicToolResult
)
ShownBlock = blocks.AnthropicText | blocks.AnthropicImage | blocks.AnthropicDocument | blocks.SearchResult
# What only Anthropic's own models can read.
_ENCRYPTED = ("encrypted_content", "encrypted_index", "encrypted_stdout")


@dataclass(slots=True, kw_only=True)
class AnthropicConversation:
    """Translates the messages of one request.

    Tool results must answer a call of an earlier message. `deferred_tools` are not offered at the front of
    the prompt. The definition of each is put where a tool_reference names it, so that a tool found later
    leaves the prompt before it unchanged.
    """

    deferred_tools: Mapping[str, ToolSpec]
    _call_ids: set[str] = field(default_factory=set)

    def read(
        self, request: schema.CountTokensRequest, before: Sequence[schema.ConversationMessage] = ()
    ) -> tuple[Message, ...]:
        """Return all messages, the system prompt and `before` first. Raises InvalidRequest."""
        messages = []
        if request.system:
            messages.append(Message(role="system", parts=tuple(_texts(request.system))))
        for index, message in enumerate((*before, *request.messages), -len(before)):
            messages.extend(self._message(message, f"messages[{index}].content"))
        return tuple(messages)

    def _message(self, message: schema.ConversationMessage, path: str) -> Iterable[Message]:
        match message:
            case schema.AnthropicSystemMessage():
                yield Message(role="system", parts=tuple(_texts(message.content)))
            case schema.AnthropicAssistantMessage():
                yield from self._answer(message, path)
            case schema.AnthropicUserMessage():
                yield from self._question(message, path)
            case _:
                assert_never(message)

    def _answer(self, message: schema.AnthropicAssistantMessage, path: str) -> Iterable[Message]:
        if isinstance(message.content, str):
            yield Message(role="assistant", parts=tuple(_texts(message.content)))
            return
        pending_parts: list[Part] = []
        has_results = False
        for index, block in enumerate(message.content):
            if isinstance(block, blocks.ServerToolResult):
                if pending_parts:
                    yield Message(role="assistant", parts=tuple(pending_parts))
                    pending_parts = []
                has_results = True
                yield Message(role="tool", parts=(self._server_result(block, f"{path}[{index}]"),))
            else:
                pending_parts.extend(self._answer_parts(block, f"{path}[{index}]"))
        if pending_parts or not has_results:
            yield Message(role="assistant", parts=tuple(pending_parts))

    def _answer_parts(
        self,
        block: blocks.AnthropicText
        | blocks.AnthropicThinking
        | blocks.RedactedThinking
        | blocks.AnthropicToolUse
        | blocks.AnthropicCompaction
        | blocks.McpToolListing
        | blocks.FallbackMark,
        path: str,
    ) -> Iterable[Part]:
        match block:
            case blocks.AnthropicText():
                yield from _texts([block])
            case blocks.AnthropicThinking():
                thought = block.thinking or thinking_from_signature(block.signature)
                if thought:
                    yield ThinkingPart(text=thought, signature=block.signature)
            case blocks.RedactedThinking() | blocks.McpToolListing() | blocks.FallbackMark():
                pass
            case blocks.AnthropicCompaction(content=summary):
                if summary:
                    yield TextPart(text=f"Summary of the conversation so far:\n{summary}")
            case blocks.AnthropicToolUse():
                self._call_ids.add(block.id)
                arguments = _object_text(block.input, f"{path}.input")
                yield ToolCallPart(id=block.id, name=block.name, arguments=arguments)
            case _:
                assert_never(block)

    def _server_result(self, block: blocks.ServerToolResult, path: str) -> ToolResultPart:
        """Return a result as JSON text.

        The result of a tool search becomes the definitions of the tools.
        """
        check_result_id(block.tool_use_id, self._call_ids, path=f"{path}.tool_use_id")
        content = decode_json(block.content)
        check_nesting(content, f"{path}.content")
        if isinstance(content, dict) and isinstance(found := content.get("tool_references"), list):
            names = [each.get("tool_name") for each in found if isinstance(each, dict)]
            text = "\n".join(self._definition(name) for name in names if isinstance(name, str))
        else:
            text = msgspec.json.encode(_readable(content)).decode()
        return ToolResultPart(
            call_id=block.tool_use_id, content=(TextPart(text=text),), is_error=bool(block.is_error)
        )

    def _question(self, message: schema.AnthropicUserMessage, path: str) -> Iterable[Message]:
        user_blocks: Iterable[UserBlock] = _blocks(message.content)
        pending_parts: list[Part] = []
        num_results = 0
        for index, block in enumerate(user_blocks):
            if not isinstance(block, blocks.AnthropicToolResult):
                pending_parts.extend(
                    (_video(block, f"{path}[{index}]"),)
                    if isinstance(block, blocks.AnthropicVideo)
                    else _shown(block, f"{path}[{index}]")
                )
                continue
            if pending_parts:
                yield Message(role="user", parts=tuple(pending_parts))
                pending_parts = []
            num_results += 1
            yield Message(role="tool", parts=(self._result(block, f"{path}[{index}]"),))
        if pending_parts or not num_results:
            yield Message(role="user", parts=tuple(pending_parts))

    def _result(self, block: blocks.AnthropicToolResult, path: str) -> ToolResultPart:
        check_result_id(block.tool_use_id, self._call_ids, path=f"{path}.tool_use_id")
        parts: list[ShownPart] = []
        for index, inner in enumerate(_blocks(block.content or "")):
            if isinstance(inner, blocks.ToolReference):
                parts.append(TextPart(text=self._definition(inner.tool_name)))
            else:
                parts.extend(_shown(inner, f"{path}.content[{index}]", is_result=True))
        return ToolResultPart(call_id=block.tool_use_id, content=tuple(parts), is_error=bool(block.is_error))

    def _definition(self, name: str) -> str:
        spec = self.deferred_tools.get(name)
        if spec is None:
            return name
        function = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
        return msgspec.json.encode({"type": "function", "function": function}).decode()


def _blocks(content: str | list[BlockType]) -> Iterable[blocks.AnthropicText | BlockType]:
    return (blocks.AnthropicText(text=content),) if isinstance(content, str) else content


def _texts(content: str | list[blocks.AnthropicText]) -> Iterable[TextPart]:
    """Yield the non-empty texts.

    A string equals a list of one block.
    """
    return (TextPart(text=block.text) for block in _blocks(content) if block.text)


def _shown(block: ShownBlock, path: str, *, is_result: bool = False) -> Iterable[ShownPart]:
    """Return the parts of a block.

    Raises InvalidRequest for one that cannot be read.
    """
    match block:
        case blocks.AnthropicText():
            return _texts([block])
        case blocks.AnthropicImage(source=blocks.Base64Source() as source):
            return (image_from_base64(source.data, source.media_type, f"{path}.source"),)
        case blocks.AnthropicImage(source=blocks.UrlSource(url=url)):
            return (image_from_url(url, f"{path}.source.url"),)
        case blocks.SearchResult():
            text = "\n".join(part.text for part in block.content)
            head = f"<search_result source={_quoted(block.source)} title={_quoted(block.title)}>"
            return (TextPart(text=f"{head}\n{text}\n</search_result>\n"),)
        case blocks.AnthropicDocument():
            return _document(block, path, is_result=is_result)
        case blocks.AnthropicImage():
            raise _stored_file(path)
        case _:
            assert_never(block)


def _video(block: blocks.AnthropicVideo, path: str) -> VideoPart | RemoteImagePart:
    match block.source:
        case blocks.Base64Source(data=data, media_type=kind):
            return video_from_base64(data, kind, f"{path}.source", block)
        case blocks.UrlSource(url=url):
            return video_from(url, f"{path}.source.url", block)
        case blocks.FileSource():
            raise _stored_file(path)
    if block.video is None:
        raise missing(f"{path}.source")
    return video_from(block.video, f"{path}.video", block)


def _stored_file(path: str) -> InvalidRequest:
    return InvalidRequest(
        f"{path}.source.type must be 'base64' or 'url'; files are not stored here, so send the bytes",
        param=f"{path}.source.type",
    )


def _document(block: blocks.AnthropicDocument, path: str, *, is_result: bool) -> Iterable[ShownPart]:
    """Return a document between tags.

    One that cannot be read is refused in a question. In a tool result a note replaces it, because a client
    cannot take back the result of its tool.
    """
    head, end = document_tags(block.title, block.context)
    match block.source:
        case blocks.PlainTextSource(data=text) | blocks.ContentSource(content=str(text)):
            return (TextPart(text=f"{head.text}{text}{end.text}"),)
        case blocks.ContentSource(content=content):
            assert not isinstance(content, str), "the case above has the texts"
            inner = [
                part
                for index, each in enumerate(content)
                for part in _shown(each, f"{path}.source.content[{index}]")
            ]
            return (head, *inner, end)
        case blocks.Base64Source(data=data, media_type=kind) if kind.lower() == PDF or not is_result:
            return (head, document_from_base64(data, kind, f"{path}.source"), end)
        case blocks.Base64Source() | blocks.UrlSource() | blocks.FileSource() as source:
            kind = source.media_type if isinstance(source, blocks.Base64Source) else "a remote file"
            if is_result:
                note = f"This document ({kind}) was not read: the server reads texts and PDFs only."
                return (TextPart(text=f"{head.text}{note}{end.text}"),)
            raise InvalidRequest(
                f"{path}.source is {kind}, which is not supported; send a PDF (source type 'base64') or "
                "text (source type 'text' or 'content')",
                param=f"{path}.source",
            )
        case _:
            assert_never(block.source)


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _readable(value: Any) -> Any:
    """Return a value without encrypted fields."""
    if isinstance(value, dict):
        return {name: _readable(inner) for name, inner in value.items() if name not in _ENCRYPTED}
    return [_readable(inner) for inner in value] if isinstance(value, list) else value


def _object_text(raw: msgspec.Raw, path: str) -> str:
    value = decode_json(raw)
    if not isinstance(value, dict):
        raise InvalidRequest(f"{path} must be an object", param=path)
    check_nesting(value, path)
    return bytes(raw).decode()
