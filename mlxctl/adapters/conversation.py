"""Messages of the house as the dictionaries that chat templates read: nothing lost, nothing added."""

import json
from collections.abc import Sequence
from typing import Any

from mlxctl.adapters.chat_template import TemplateMessage
from mlxctl.errors import InvalidRequest
from mlxctl.ir import AudioPart, ImagePart, Message, ToolCallPart, ToolResultPart, ToolSpec


def template_messages(messages: Sequence[Message]) -> list[TemplateMessage]:
    """Convert a conversation; raises InvalidRequest for images and sounds, which a text model cannot take."""
    converted: list[TemplateMessage] = []
    tool_names: dict[str, str] = {}
    for index, message in enumerate(messages):
        _refuse_media(message, f"messages.{index}")
        tool_names |= {call.id: call.name for call in message.tool_calls}
        converted += [_tool_message(result, tool_names.get(result.call_id)) for result in message.tool_results]
        if message.role != "tool" and (message.text or not message.tool_results):
            converted.append(_plain_message(message))
    return converted


def template_tools(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    """Convert the tools on offer to function definitions; a tool without parameters takes an empty object."""
    nothing = {"type": "object", "properties": {}}
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": dict(tool.parameters) or nothing,
            },
        }
        for tool in tools
    ]


def arguments_value(arguments: str) -> Any:
    """The arguments of a past call as a template wants them: an object where the JSON text is one, else the text."""
    if not arguments.strip():
        return {}
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    return value if isinstance(value, dict) else arguments


def _plain_message(message: Message) -> TemplateMessage:
    converted: TemplateMessage = {"role": message.role, "content": message.text}
    if message.name is not None:
        converted["name"] = message.name
    if message.role == "assistant":
        if message.thinking:
            converted["reasoning_content"] = message.thinking
        if message.tool_calls:
            converted["tool_calls"] = [_tool_call(call) for call in message.tool_calls]
    return converted


def _tool_call(call: ToolCallPart) -> dict[str, Any]:
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": arguments_value(call.arguments)},
    }


def _tool_message(result: ToolResultPart, name: str | None) -> TemplateMessage:
    text = f"Error: {result.text}" if result.is_error else result.text
    converted: TemplateMessage = {"role": "tool", "content": text, "tool_call_id": result.call_id}
    if name is not None:
        converted["name"] = name
    return converted


def _refuse_media(message: Message, where: str) -> None:
    """Refuse what has no text; a result's parts are looked through too."""
    parts = [*message.parts, *(part for result in message.tool_results for part in result.content)]
    for part in parts:
        if isinstance(part, ImagePart | AudioPart):
            kind = "images" if isinstance(part, ImagePart) else "audio"
            raise InvalidRequest(f"this model reads text only: it cannot take {kind}", param=where)
