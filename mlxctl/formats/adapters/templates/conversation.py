"""Messages as the dictionaries that chat templates read, without loss."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from mlxctl.formats.adapters.templates.chat_template import TemplateMessage
from mlxctl.formats.adapters.templates.result_images import ResultImages, in_call_order, without_result_images
from mlxctl.ir import (
    AudioPart,
    DocumentPart,
    ImagePart,
    Message,
    RemoteImagePart,
    SeenPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    ToolSpec,
    VideoPart,
)
from mlxctl.ir.errors import InvalidRequest

_SHOWN = (TextPart, ImagePart, VideoPart, AudioPart)
_IMAGES = (ImagePart, VideoPart, RemoteImagePart)


def template_messages(
    messages: Sequence[Message],
    *,
    placeholder: str | None = None,
    shown: Callable[[SeenPart], str] | None = None,
    shows_in_results: bool = False,
    vision_problem: str | None = None,
    audio_placeholder: str | None = None,
    audio_problem: str | None = None,
) -> list[TemplateMessage]:
    """Convert a conversation to the dictionaries of templates.

    The placeholders mark images and audio, None where these are not taken; `shown` returns the text of an
    image or a clip, by default the placeholder. Images of tool results stay there with `shows_in_results`;
    else a user message after the results shows them. `vision_problem` is why a
    vision model does not take images, `audio_problem` the same of audio. Without vision a note replaces an
    image of a tool result, since a client cannot take that back. Raises InvalidRequest for other images and
    audio that the model cannot take.
    """
    if placeholder is None:
        messages = list(map(without_result_images, messages))
    converted: list[TemplateMessage] = []
    tool_names: dict[str, str] = {}
    result_images = ResultImages(placeholder or "", is_after=not shows_in_results)
    for index, message in enumerate(messages):
        _refuse_media(
            message, f"messages.{index}", takes_images=placeholder is not None, vision_problem=vision_problem
        )
        if audio_placeholder is None:
            reason = f" ({audio_problem})" if audio_problem else ""
            _refuse_audio(message, f"this model cannot take audio{reason}")
        elif message.role != "user":
            _refuse_audio(message, "this model takes audio in a user's messages only")
    for message in in_call_order(messages):
        tool_names |= {call.id: call.name for call in message.tool_calls}
        if not message.tool_results:
            converted += result_images.flush()
        converted += [
            _tool_message(result, tool_names.get(result.call_id), result_images)
            for result in message.tool_results
        ]
        text = _text(message, shown or (lambda _: placeholder or ""), audio_placeholder or "")
        if message.role != "tool" and (text or not message.tool_results):
            converted += result_images.flush()
            converted.append(_plain_message(message, text))
    return [*converted, *result_images.flush()]


def template_tools(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    """Convert tool definitions to OpenAI's function objects.

    A tool without parameters takes an empty object.
    """
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
    """Return a past call's arguments for a template.

    An object if the JSON text is one, else the text.
    """
    if not arguments.strip():
        return {}
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    return value if isinstance(value, dict) else arguments


def _text(message: Message, shown: Callable[[SeenPart], str], audio_placeholder: str) -> str:
    """Return the text of a message with its images and audio."""

    def written(part: TextPart | SeenPart | AudioPart) -> str:
        if isinstance(part, TextPart):
            return part.text
        return audio_placeholder if isinstance(part, AudioPart) else shown(part)

    return "".join(written(part) for part in message.parts if isinstance(part, _SHOWN))


def _plain_message(message: Message, text: str) -> TemplateMessage:
    converted: TemplateMessage = {"role": message.role, "content": text}
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


def _tool_message(result: ToolResultPart, name: str | None, result_images: ResultImages) -> TemplateMessage:
    text = result_images.add(result, name)
    converted: TemplateMessage = {
        "role": "tool",
        "content": f"Error: {text}" if result.is_error else text,
        "tool_call_id": result.call_id,
    }
    if name is not None:
        converted["name"] = name
    return converted


def _refuse_audio(message: Message, reason: str) -> None:
    """Raise InvalidRequest for audio."""
    for part in message.parts:
        if isinstance(part, AudioPart):
            raise InvalidRequest(f"{part.param}: {reason}", param=part.param)


def _refuse_media(message: Message, where: str, *, takes_images: bool, vision_problem: str | None) -> None:
    """Raise InvalidRequest for media that the model cannot take."""
    for part in (*message.parts, *(part for result in message.tool_results for part in result.content)):
        if isinstance(part, _IMAGES) and not takes_images:
            reason = f" ({vision_problem})" if vision_problem else ""
            is_video = isinstance(part, VideoPart) or (isinstance(part, RemoteImagePart) and part.video)
            kind = "videos" if is_video else "images"
            raise InvalidRequest(f"this model reads text only: it cannot take {kind}{reason}", param=where)
        if isinstance(part, _IMAGES) and message.role not in ("user", "tool"):
            raise InvalidRequest(
                "this model takes images in a user's messages and in tool results only", param=where
            )
        if isinstance(part, DocumentPart):
            raise InvalidRequest(
                f"{part.param} is a PDF, which is not read for this; send its text", param=part.param
            )
        if isinstance(part, RemoteImagePart):
            raise InvalidRequest(
                f"{part.param} is the URL of a remote image, which is not fetched for this; send the bytes",
                param=part.param,
            )
