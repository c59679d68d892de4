"""Anthropic's messages to `ir` messages.

A user turn with tool results becomes tool messages and user messages, in order.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar, assert_never

import msgspec

from mlxctl.errors import InvalidRequest
from mlxctl.ir import ImagePart, Message, Part, TextPart, ThinkingPart, ToolCallPart, ToolResultPart, ToolSpec
from mlxctl.protocols.anthropic import messages_schema as schema
from mlxctl.protocols.decoding import check_nesting, decode_json
from mlxctl.protocols.media import image_from_base64
from mlxctl.protocols.thinking_signature import thinking_from_signature
from mlxctl.protocols.tool_checks import check_result_id

BlockType = TypeVar("BlockType")
UserBlock = schema.AnthropicText | schema.AnthropicImage | schema.AnthropicToolResult


@dataclass(slots=True, kw_only=True)
class AnthropicConversation:
    """Translates the messages of one request.

    Tool results must answer a call of an earlier message. `deferred_tools` are not offered at the front of
    the prompt. The definition of each is put where a tool_reference names it, so that a tool found later
    leaves the prompt before it unchanged.
    """

    deferred_tools: Mapping[str, ToolSpec]
    _call_ids: set[str] = field(default_factory=set)

    def read(self, request: schema.CountTokensRequest) -> tuple[Message, ...]:
        """Return all messages, the system prompt first. Raises InvalidRequest."""
        messages = []
        if request.system:
            messages.append(Message(role="system", parts=tuple(_texts(request.system))))
        for index, message in enumerate(request.messages):
            messages.extend(self._message(message, f"messages[{index}].content"))
        return tuple(messages)

    def _message(self, message: schema.ConversationMessage, path: str) -> Iterable[Message]:
        match message:
            case schema.AnthropicSystemMessage():
                yield Message(role="system", parts=tuple(_texts(message.content)))
            case schema.AnthropicAssistantMessage():
                yield Message(role="assistant", parts=tuple(self._answer(message, path)))
            case schema.AnthropicUserMessage():
                yield from self._question(message, path)
            case _:
                assert_never(message)

    def _answer(self, message: schema.AnthropicAssistantMessage, path: str) -> Iterable[Part]:
        if isinstance(message.content, str):
            yield from _texts(message.content)
            return
        for index, block in enumerate(message.content):
            match block:
                case schema.AnthropicText():
                    yield from _texts([block])
                case schema.AnthropicThinking():
                    thought = block.thinking or thinking_from_signature(block.signature)
                    if thought:
                        yield ThinkingPart(text=thought, signature=block.signature)
                case schema.RedactedThinking():
                    pass
                case schema.AnthropicToolUse():
                    self._call_ids.add(block.id)
                    arguments = _object_text(block.input, f"{path}[{index}].input")
                    yield ToolCallPart(id=block.id, name=block.name, arguments=arguments)
                case _:
                    assert_never(block)

    def _question(self, message: schema.AnthropicUserMessage, path: str) -> Iterable[Message]:
        blocks: Iterable[UserBlock] = _blocks(message.content)
        said: list[Part] = []
        num_results = 0
        for index, block in enumerate(blocks):
            if not isinstance(block, schema.AnthropicToolResult):
                said.extend(_text_or_image(block, f"{path}[{index}]"))
                continue
            if said:
                yield Message(role="user", parts=tuple(said))
                said = []
            num_results += 1
            yield Message(role="tool", parts=(self._result(block, f"{path}[{index}]"),))
        if said or not num_results:
            yield Message(role="user", parts=tuple(said))

    def _result(self, block: schema.AnthropicToolResult, path: str) -> ToolResultPart:
        check_result_id(block.tool_use_id, self._call_ids, path=f"{path}.tool_use_id")
        parts: list[TextPart | ImagePart] = []
        for index, inner in enumerate(_blocks(block.content or "")):
            if isinstance(inner, schema.ToolReference):
                parts.append(TextPart(text=self._definition(inner.tool_name)))
            else:
                parts.extend(_text_or_image(inner, f"{path}.content[{index}]"))
        return ToolResultPart(call_id=block.tool_use_id, content=tuple(parts), is_error=bool(block.is_error))

    def _definition(self, name: str) -> str:
        spec = self.deferred_tools.get(name)
        if spec is None:
            return name
        function = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
        return msgspec.json.encode({"type": "function", "function": function}).decode()


def _blocks(content: str | list[BlockType]) -> Iterable[schema.AnthropicText | BlockType]:
    return (schema.AnthropicText(text=content),) if isinstance(content, str) else content


def _texts(content: str | list[schema.AnthropicText]) -> Iterable[TextPart]:
    """Yield the non-empty texts.

    A string equals a list of one block.
    """
    return (TextPart(text=block.text) for block in _blocks(content) if block.text)


def _text_or_image(
    block: schema.AnthropicText | schema.AnthropicImage, path: str
) -> Iterable[TextPart | ImagePart]:
    if isinstance(block, schema.AnthropicText):
        return _texts([block])
    source = block.source
    if isinstance(source, schema.Base64Source):
        return (image_from_base64(source.data, source.media_type, f"{path}.source"),)
    raise InvalidRequest(
        f"{path}.source.type must be 'base64'; remote images and files are not fetched, so send the bytes",
        param=f"{path}.source.type",
    )


def _object_text(raw: msgspec.Raw, path: str) -> str:
    value = decode_json(raw)
    if not isinstance(value, dict):
        raise InvalidRequest(f"{path} must be an object", param=path)
    check_nesting(value, path)
    return bytes(raw).decode()
