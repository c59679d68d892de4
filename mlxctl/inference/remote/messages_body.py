"""Body of `POST /v1/messages` for a GenerationRequest.

The thinking of earlier answers is left out: only its own server can sign it, and others refuse it unsigned.
"""

import base64
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

import msgspec

from mlxctl.inference.remote.unsupported_options import check_common, refuse_set
from mlxctl.ir import (
    Constraint,
    DocumentPart,
    GenerationRequest,
    ImagePart,
    Message,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    ToolSpec,
)
from mlxctl.ir.errors import InvalidRequest

# The protocol requires a limit.
_MAX_TOKENS = 8192
_MIN_THINKING_TOKENS = 1024
_PROTOCOL = "the Messages API"


def messages_body(request: GenerationRequest) -> dict[str, Any]:
    """Return the body of a streamed message.

    Raises InvalidRequest for options that it cannot carry.
    """
    check_common(request)
    sampling = request.sampling
    refuse_set(sampling, except_for=("temperature", "top_p", "top_k"), protocol=_PROTOCOL)
    for name, value in (
        ("chat_template_kwargs", request.template_kwargs),
        ("ignore_eos", request.ignore_eos),
        ("context_overflow", request.context_overflow not in (None, "error")),
    ):
        if value:
            raise InvalidRequest(f"{name} cannot be sent in {_PROTOCOL}; leave it out", param=name)
    max_tokens = request.max_tokens or request.default_max_tokens or _MAX_TOKENS
    num_first = next((i for i, each in enumerate(request.messages) if each.role != "system"), 0)
    body: dict[str, Any] = {
        "model": request.model,
        "max_tokens": max_tokens,
        "system": "\n\n".join(message.text for message in request.messages[:num_first]) or None,
        "messages": list(_messages(request.messages[num_first:])),
        "stream": True,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "stop_sequences": list(request.stop) or None,
        "thinking": _thinking(request, max_tokens),
        "output_config": _output_config(request) or None,
        **_tools(request),
    }
    return {key: value for key, value in body.items() if value is not None}


def _messages(messages: Sequence[Message]) -> Iterable[dict[str, Any]]:
    """Yield the turns; results of parallel calls are one."""
    for role, group in groupby(messages, key=lambda each: "user" if each.role == "tool" else each.role):
        content = [block for message in group for part in message.parts for block in _blocks(part)]
        yield {"role": role, "content": content}


def _blocks(part: Part) -> Iterable[dict[str, Any]]:
    match part:
        case TextPart():
            # Empty texts are refused.
            if part.text:
                yield {"type": "text", "text": part.text}
        case ImagePart():
            yield {"type": "image", "source": _source(part.data, part.media_type)}
        case DocumentPart():
            yield {"type": "document", "source": _source(part.data, "application/pdf")}
        case ToolCallPart():
            yield {"type": "tool_use", "id": part.id, "name": part.name, "input": _input(part)}
        case ToolResultPart():
            content = [block for inner in part.content for block in _blocks(inner)]
            failed = {"is_error": True} if part.is_error else {}
            yield {"type": "tool_result", "tool_use_id": part.call_id, "content": content, **failed}
        case ThinkingPart():
            pass
        case _:
            raise InvalidRequest(f"{type(part).__name__} cannot be sent in {_PROTOCOL}", param="messages")


def _source(data: bytes, media_type: str) -> dict[str, str]:
    return {"type": "base64", "media_type": media_type, "data": base64.b64encode(data).decode()}


def _input(call: ToolCallPart) -> Any:
    try:
        value = msgspec.json.decode(call.arguments or "{}")
    except (msgspec.MsgspecError, RecursionError):
        value = None
    if not isinstance(value, dict):
        # A model can write what is no object; the protocol has no other place for it.
        value = {"arguments": call.arguments}
    return value


def _thinking(request: GenerationRequest, max_tokens: int) -> dict[str, Any] | None:
    if request.thinking.enabled is None:
        return None
    if not request.thinking.enabled:
        return {"type": "disabled"}
    budget = request.thinking.max_tokens or max(_MIN_THINKING_TOKENS, max_tokens // 2)
    return {"type": "enabled", "budget_tokens": budget}


def _output_config(request: GenerationRequest) -> dict[str, Any]:
    config: dict[str, Any] = {}
    if request.thinking.effort is not None:
        config["effort"] = request.thinking.effort
    match request.constraint:
        case None:
            pass
        case Constraint(kind="json_object" | "json_schema", value=schema):
            config["format"] = {"type": "json_schema", "schema": schema}
        case Constraint(param=param):
            raise InvalidRequest(
                f"{param} cannot be sent in {_PROTOCOL}, which has JSON schemas only", param=param
            )
    return config


def _tools(request: GenerationRequest) -> dict[str, Any]:
    if not request.tools:
        return {}
    mode = {"auto": "auto", "none": "none", "required": "any", "named": "tool"}[request.tool_choice.mode]
    choice: dict[str, Any] = {"type": mode}
    if request.tool_choice.name is not None:
        choice["name"] = request.tool_choice.name
    if not request.parallel_tool_calls and mode != "none":
        choice["disable_parallel_tool_use"] = True
    return {"tools": [_tool(tool) for tool in request.tools], "tool_choice": choice}


def _tool(tool: ToolSpec) -> dict[str, Any]:
    schema = {"type": "object"} | dict(tool.parameters)
    fields = {"name": tool.name, "description": tool.description, "input_schema": schema}
    return fields | {"strict": True} if tool.is_strict else fields
