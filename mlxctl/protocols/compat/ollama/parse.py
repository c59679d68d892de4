"""Ollama's bodies to requests; errors name the caller's field."""

import re
from collections.abc import Iterable, Sequence
from typing import get_args

import msgspec

from mlxctl.ir import (
    Constraint,
    GenerationRequest,
    KeepAlive,
    Message,
    Part,
    SamplingOptions,
    TextPart,
    ThinkingOptions,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols.compat.ollama import schema
from mlxctl.protocols.decoding import check_nesting, decode_body
from mlxctl.protocols.extension_fields import with_extensions
from mlxctl.protocols.media import image_from_bytes
from mlxctl.protocols.openai.chat_schema import Effort
from mlxctl.protocols.openai.chat_tools import tool_specs
from mlxctl.protocols.ranges import seed_option, top_k_option
from mlxctl.protocols.structured_output import object_constraint, schema_constraint
from mlxctl.protocols.thinking_switches import thinking_options

_CHAT = msgspec.json.Decoder(schema.OllamaChatRequest)
_GENERATE = msgspec.json.Decoder(schema.OllamaGenerateRequest)
# Clients add the tag to names that have none.
_NUMBER = r"\d{1,9}(?:\.\d{1,9})?"
_AMOUNT = re.compile(rf"({_NUMBER})(ns|us|µs|ms|s|m|h)")
_DURATION = re.compile(rf"{_NUMBER}|(?:{_NUMBER}(?:ns|us|µs|ms|s|m|h)){{1,7}}")
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_LATEST = re.compile(r":latest\Z")


def model_name(name: str) -> str:
    """Return a model's name without Ollama's default tag."""
    return _LATEST.sub("", name)


def decode_chat(body: bytes) -> schema.OllamaChatRequest:
    """Decode a body of /api/chat. Raises InvalidRequest."""
    return decode_body(body, _CHAT)


def decode_generate(body: bytes) -> schema.OllamaGenerateRequest:
    """Decode a body of /api/generate and refuse unsupported fields. Raises InvalidRequest."""
    request = decode_body(body, _GENERATE)
    if request.template:
        raise InvalidRequest("template is not supported; leave it out", param="template")
    if request.context:
        raise InvalidRequest(
            "context is not supported; send the conversation as messages to /api/chat", param="context"
        )
    return request


def keep_alive(value: str | float | None) -> KeepAlive | None:
    """Return the time to live of a `keep_alive`, None without one.

    It is a number of seconds, or a text such as "5m" or "1h30m"; a negative one means for ever. Raises
    InvalidRequest.
    """
    if value is None:
        return None
    seconds = value if isinstance(value, int | float) else _duration(value)
    return KeepAlive(seconds=None if seconds < 0 else float(seconds))


def _duration(text: str) -> float:
    sign, pieces = (-1, text[1:]) if text.startswith("-") else (1, text)
    if not _DURATION.fullmatch(pieces):
        raise InvalidRequest(
            f"keep_alive is {text[:64]!r}; send seconds, or a duration such as '5m' or '1h30m'",
            param="keep_alive",
        )
    amounts = _AMOUNT.findall(pieces)
    return sign * (
        sum(float(number) * _UNITS[unit] for number, unit in amounts) if amounts else float(pieces)
    )


def chat_request(request: schema.OllamaChatRequest) -> GenerationRequest:
    """Translate a decoded body. Raises InvalidRequest."""
    messages = _messages(request.messages or ())
    return _request(
        request,
        messages=messages,
        tools=tool_specs(request.tools or ()),
        continues_answer=bool(messages) and messages[-1].is_start_of_answer,
    )


def generate_request(request: schema.OllamaGenerateRequest) -> GenerationRequest:
    """Translate a decoded body. Raises InvalidRequest."""
    prompt = request.prompt or ""
    if request.suffix:
        return _request(request, prompts=(prompt,), suffix=request.suffix)
    if request.raw:
        return _request(request, prompts=(prompt,))
    messages = [schema.OllamaMessage(role="user", content=prompt, images=request.images)]
    if request.system:
        messages.insert(0, schema.OllamaMessage(role="system", content=request.system))
    return _request(request, messages=_messages(messages, in_list=False))


def _request(request: schema.OllamaRequest, **more: object) -> GenerationRequest:
    options = request.options or schema.OllamaOptions()
    limit, stop = options.num_predict, options.stop
    if limit == 0:
        raise InvalidRequest(
            "options.num_predict is 0; leave it out, or raise it", param="options.num_predict"
        )
    translated = GenerationRequest(
        model=model_name(request.model),
        keep_alive=keep_alive(request.keep_alive),
        sampling=SamplingOptions(
            temperature=options.temperature,
            top_p=options.top_p,
            top_k=top_k_option(options.top_k),
            min_p=options.min_p,
            typical_p=options.typical_p,
            repetition_penalty=options.repeat_penalty,
            presence_penalty=options.presence_penalty,
            frequency_penalty=options.frequency_penalty,
            seed=seed_option(options.seed),
            num_top_logprobs=(request.top_logprobs or 0) if request.logprobs else None,
        ),
        thinking=_thinking(request.think),
        constraint=_constraint(request.format),
        max_tokens=None if limit is None or limit < 0 else limit,
        stop=(stop,) if isinstance(stop, str) else tuple(stop or ()),
        stream=request.stream is not False,
        **more,  # type: ignore[arg-type]
    )
    return with_extensions(translated, request)


def _thinking(think: bool | str | None) -> ThinkingOptions:
    if isinstance(think, str) and think not in get_args(Effort):
        raise InvalidRequest(
            f"think must be true, false or an effort ({', '.join(get_args(Effort))})", param="think"
        )
    return thinking_options(switches=(think,))


def _constraint(wanted: str | dict[str, object] | None) -> Constraint | None:
    if not wanted:
        return None
    if isinstance(wanted, dict):
        return schema_constraint(wanted, param="format", is_strict=False)
    if wanted != "json":
        raise InvalidRequest('format must be "json" or a JSON schema', param="format")
    return object_constraint("format")


def _messages(messages: Sequence[schema.OllamaMessage], *, in_list: bool = True) -> tuple[Message, ...]:
    """Translate messages of an Ollama request.

    Calls without an id get one, and results refer to calls in their order. A result without a call keeps its
    text: clients that leave calls out of the history still send their results.
    """
    translated: list[Message] = []
    pending: dict[str, str] = {}
    num_calls = 0
    for index, message in enumerate(messages):
        path = f"messages[{index}]." if in_list else ""
        if message.role == "tool":
            call_id = _answered(message, pending) or f"result_{index}"
            content = tuple(part for part in _content(message, path) if not isinstance(part, ThinkingPart))
            translated.append(Message(role="tool", parts=(ToolResultPart(call_id=call_id, content=content),)))  # type: ignore[arg-type]
            continue
        parts: list[Part] = list(_content(message, path))
        for position, call in enumerate(message.tool_calls or ()):
            num_calls += 1
            call_id = call.id or f"call_{num_calls}"
            check_nesting(call.function.arguments, f"{path}tool_calls[{position}].function.arguments")
            arguments = msgspec.json.encode(call.function.arguments).decode()
            parts.append(ToolCallPart(id=call_id, name=call.function.name, arguments=arguments))
            pending[call_id] = call.function.name
        translated.append(Message(role=message.role, parts=tuple(parts)))
    return tuple(translated)


def _answered(message: schema.OllamaMessage, pending: dict[str, str]) -> str | None:
    """Return the id of the call that a result answers.

    None without one. By id, by name, or the first open one.
    """
    wanted, name = message.tool_call_id, message.tool_name
    named = (call_id for call_id, call_name in pending.items() if name in (None, "", call_name))
    call_id = wanted if wanted in pending else next(named, None)
    if call_id is not None:
        del pending[call_id]
    return call_id


def _content(message: schema.OllamaMessage, path: str) -> Iterable[Part]:
    if message.thinking and message.role == "assistant":
        yield ThinkingPart(text=message.thinking)
    for index, data in enumerate(message.images or ()):
        yield image_from_bytes(data, f"{path}images[{index}]")
    if message.content:
        yield TextPart(text=message.content)
