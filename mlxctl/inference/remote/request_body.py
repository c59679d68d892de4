"""Body of `POST /v1/chat/completions` for a GenerationRequest.

Fields without a value are left out, because strict servers reject nulls. Options that the body cannot carry
(raw prompts, several choices, echo) raise an error and are never dropped.
"""

import base64
from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields
from typing import Any

from mlxctl.inference.remote.unsupported_options import check_common
from mlxctl.ir import (
    AudioPart,
    Constraint,
    DocumentPart,
    GenerationRequest,
    ImagePart,
    Message,
    Part,
    Repetition,
    SamplingOptions,
    TextPart,
    ToolCallPart,
    ToolSpec,
    VideoPart,
)
from mlxctl.ir.errors import InvalidRequest
from mlxctl.ir.images import image_media_type, video_media_type


def chat_body(request: GenerationRequest) -> dict[str, Any]:
    """Return the body of a streamed completion.

    Raises InvalidRequest for options that it cannot carry.
    """
    check_common(request)
    body: dict[str, Any] = {
        "model": request.model,
        "messages": list(_messages(request.messages)),
        "stream": True,
        "stream_options": {"include_usage": True},
        **_sampling(request.sampling),
        **_thinking(request),
        **_constraint(request.constraint),
        "max_tokens": request.max_tokens,
        "stop": list(request.stop) or None,
        "ignore_eos": request.ignore_eos or None,
        "context_overflow": None if request.context_overflow == "error" else request.context_overflow,
        "continue_final_message": request.continues_answer or None,
        "add_generation_prompt": False if request.continues_answer else None,
        **_tools(request),
    }
    return {key: value for key, value in body.items() if value is not None}


def _messages(messages: Sequence[Message]) -> Iterable[dict[str, Any]]:
    last_user_message = max(
        (index for index, message in enumerate(messages) if message.role == "user"), default=-1
    )
    for index, message in enumerate(messages):
        if message.role == "tool":
            for result in message.tool_results:
                yield {
                    "role": "tool",
                    "tool_call_id": result.call_id,
                    "content": _content(result.content, result.text),
                }
        elif message.role == "assistant":
            # Thinking belongs to the current turn; some servers reject that of earlier ones.
            yield _assistant_message(message, with_thinking=index > last_user_message)
        else:
            yield {"role": message.role, "content": _content(message.parts, message.text)}


def _assistant_message(message: Message, *, with_thinking: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {"role": "assistant", "content": message.text}
    if with_thinking and message.thinking:
        fields["reasoning_content"] = message.thinking
    if message.tool_calls:
        fields["tool_calls"] = [_call(call) for call in message.tool_calls]
    return fields


def _call(call: ToolCallPart) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _content(parts: Sequence[Part], text: str) -> str | list[dict[str, Any]]:
    """Return `text` if all parts are text, otherwise a list of parts."""
    return text if all(isinstance(part, TextPart) for part in parts) else [_part(part) for part in parts]


def _part(part: object) -> dict[str, Any]:
    match part:
        case TextPart():
            return {"type": "text", "text": part.text}
        case ImagePart():
            data = base64.b64encode(part.data).decode()
            return {"type": "image_url", "image_url": {"url": f"data:{part.media_type};base64,{data}"}}
        case AudioPart():
            data = base64.b64encode(part.data).decode()
            return {"type": "input_audio", "input_audio": {"data": data, "format": part.format}}
        case DocumentPart():
            data = base64.b64encode(part.data).decode()
            name = {} if part.filename is None else {"filename": part.filename}
            return {"type": "file", "file": {**name, "file_data": f"data:application/pdf;base64,{data}"}}
        case VideoPart():
            return _video(part)
        case _:
            raise InvalidRequest(f"{type(part).__name__} cannot be sent to another server", param="messages")


def _video(part: VideoPart) -> dict[str, Any]:
    media_type = image_media_type if part.has_frames else video_media_type
    urls = [
        f"data:{media_type(data[:64]) or 'video/mp4'};base64,{base64.b64encode(data).decode()}"
        for data in part.files
    ]
    body: dict[str, Any] = (
        {"type": "video", "video": urls}
        if part.has_frames
        else {"type": "video_url", "video_url": {"url": urls[0]}}
    )
    options = {"fps": part.fps, "max_frames": part.max_frames}
    return body | {name: value for name, value in options.items() if value is not None}


def _sampling(sampling: SamplingOptions) -> dict[str, Any]:
    options = {field.name: getattr(sampling, field.name) for field in fields(sampling)}
    for name in ("num_top_logprobs", "tone_curve", "repetition"):
        del options[name]
    if sampling.logit_bias is not None:
        options["logit_bias"] = {str(key): value for key, value in sampling.logit_bias.items()}
    curve = None if sampling.tone_curve is None else asdict(sampling.tone_curve)
    return {**options, "hlg": curve, **_repetition(sampling.repetition)}


def _repetition(repetition: Repetition | None) -> dict[str, Any]:
    if repetition is None:
        return {}
    return {
        "dry_multiplier": repetition.multiplier,
        "dry_base": repetition.base,
        "dry_allowed_length": repetition.allowed_length,
        "dry_penalty_last_n": repetition.num_last,
        "dry_sequence_breakers": list(repetition.breakers),
    }


def _constraint(constraint: Constraint | None) -> dict[str, Any]:
    match constraint:
        case None:
            return {}
        case Constraint(kind="json_object" | "json_schema", value=schema, is_strict=is_strict):
            named = {"name": "form", "schema": schema, "strict": is_strict}
            return {"response_format": {"type": "json_schema", "json_schema": named}}
        case Constraint(kind=kind, value=value):
            return {"structured_outputs": {kind: value}}


def _thinking(request: GenerationRequest) -> dict[str, Any]:
    kwargs = dict(request.template_kwargs)
    if request.thinking.enabled is not None:
        # Servers of open models take this option as a template argument.
        kwargs["enable_thinking"] = request.thinking.enabled
    budget = {"reasoning_effort": request.thinking.effort, "thinking_budget": request.thinking.max_tokens}
    return {"chat_template_kwargs": kwargs or None, **budget}


def _tools(request: GenerationRequest) -> dict[str, Any]:
    if not request.tools:
        return {}
    choice: Any = request.tool_choice.mode
    if choice == "named":
        choice = {"type": "function", "function": {"name": request.tool_choice.name}}
    return {
        "tools": [_tool(tool) for tool in request.tools],
        "tool_choice": None if choice == "auto" else choice,
        "parallel_tool_calls": None if request.parallel_tool_calls else False,
    }


def _tool(tool: ToolSpec) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return {"type": "function", "function": function | {"strict": True} if tool.is_strict else function}
