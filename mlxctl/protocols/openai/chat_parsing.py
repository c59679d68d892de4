"""Chat completion bodies to GenerationRequest; errors name the caller's field."""

from collections.abc import Iterable, Sequence
from typing import Any, assert_never

import msgspec

from mlxctl.ir import (
    AudioPart,
    Constraint,
    GenerationRequest,
    Message,
    Part,
    SamplingOptions,
    ShownPart,
    TextPart,
    ThinkingOptions,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols.decoding import decode_body
from mlxctl.protocols.extension_fields import with_extensions
from mlxctl.protocols.media import audio_from_base64, audio_from_url, file_parts, image_from_url
from mlxctl.protocols.openai import chat_schema as schema
from mlxctl.protocols.openai.chat_tools import tools_and_choice
from mlxctl.protocols.openai.completion_fields import (
    check_stream_options,
    counts_every_chunk,
    shared_options,
)
from mlxctl.protocols.openai.freeform import freeform_arguments
from mlxctl.protocols.openai.unsupported_fields import check_refused
from mlxctl.protocols.priority import tier_priority
from mlxctl.protocols.ranges import answer_token_limit
from mlxctl.protocols.sampling_fields import sampling_options
from mlxctl.protocols.structured_output import (
    json_schema_constraint,
    object_constraint,
    requested_constraint,
    schema_constraint,
)
from mlxctl.protocols.thinking_switches import template_arguments, thinking_options
from mlxctl.protocols.tool_checks import check_result_id
from mlxctl.protocols.validation_errors import missing
from mlxctl.protocols.video_parts import (
    InputVideoPart,
    QwenVideoPart,
    VideoContent,
    VideoUrlPart,
    video_of,
    with_options,
)

_DECODER = msgspec.json.Decoder(schema.ChatRequest)
# "adaptive" and "auto" leave it to the model.
_THINKING_TYPES = {"enabled": True, "disabled": False}


def decode_chat(body: bytes, decoder: msgspec.json.Decoder[Any] = _DECODER) -> schema.ChatRequest:
    """Decode a body and refuse unsupported fields by name. Raises InvalidRequest."""
    request: schema.ChatRequest = decode_body(body, decoder)
    check_supported(request)
    return request


def to_generation_request(request: schema.ChatRequest, before: tuple[Message, ...] = ()) -> GenerationRequest:
    """Translate a decoded body; its messages follow those `before`. Raises InvalidRequest."""
    tools, choice = tools_and_choice(request)
    in_kwargs, template_kwargs = template_arguments(request.chat_template_kwargs)
    translated = GenerationRequest(
        model=request.model,
        continues_answer=_continues_answer(request),
        opens_answer=request.add_generation_prompt is not False,
        messages=before
        + with_options(translate_messages(request.messages, before), request.mm_processor_kwargs),
        num_choices=request.n or 1,
        tools=tools,
        tool_choice=choice,
        parallel_tool_calls=request.parallel_tool_calls is not False,
        sampling=_sampling(request),
        scores_prompt=request.prompt_logprobs is not None,
        thinking=_thinking(request, in_kwargs),
        constraint=requested_constraint(
            request, _response_format(request.response_format), json_schema_constraint(request.json_schema)
        ),
        max_tokens=answer_token_limit(request.max_tokens, "max_tokens")
        if request.max_completion_tokens is None
        else answer_token_limit(request.max_completion_tokens, "max_completion_tokens"),
        reports_tokens=_reports_tokens(request),
        template_kwargs=template_kwargs,
        priority=tier_priority(request.service_tier),
        **shared_options(request),
    )
    return with_extensions(translated, request)


def check_supported(request: schema.ChatRequest) -> None:
    """Refuse unsupported fields by name, and empty messages. Raises InvalidRequest."""
    if not request.messages:
        raise InvalidRequest("messages is empty; send at least one message", param="messages")
    check_refused(request)
    if "audio" in (request.modalities or ()):
        _refuse("modalities", "modalities asks for 'audio', but this endpoint answers in text only")
    if request.functions:
        _refuse("functions", "functions is the retired form of tools; send tools")
    if request.function_call is not None:
        _refuse("function_call", "function_call is the retired form of tool_choice; send tool_choice")
    check_stream_options(request.stream_options, stream=request.stream)
    if request.stream and request.prompt_logprobs is not None:
        message = "prompt_logprobs cannot be streamed; set stream to false"
        raise InvalidRequest(message, param="prompt_logprobs")
    for field in ("web_search_options", "moderation"):
        if getattr(request, field) is not None:
            _refuse(field, f"{field} is not supported; leave it out")


def _refuse(param: str, message: str) -> None:
    raise InvalidRequest(message, param=param, code="unsupported_parameter")


def _continues_answer(request: schema.ChatRequest) -> bool:
    """Whether the last message is the start of the answer. Raises InvalidRequest."""
    last = request.messages[-1] if request.messages else None
    if request.continue_final_message and request.add_generation_prompt:
        raise InvalidRequest(
            "continue_final_message and add_generation_prompt exclude each other; set one of them to false",
            param="continue_final_message",
        )
    if isinstance(last, schema.ChatAssistantMessage):
        return bool(request.continue_final_message or last.prefix or last.partial)
    if request.continue_final_message:
        raise InvalidRequest(
            "continue_final_message needs an assistant message as the last one",
            param="continue_final_message",
        )
    return False


def _sampling(request: schema.ChatRequest) -> SamplingOptions:
    if request.top_logprobs and not request.logprobs:
        raise InvalidRequest("top_logprobs needs logprobs to be true", param="top_logprobs")
    wanted = [(request.top_logprobs or 0) if request.logprobs else None, request.prompt_logprobs]
    numbers = [number for number in wanted if number is not None]
    return sampling_options(request, num_top_logprobs=max(numbers, default=None))


def _reports_tokens(request: schema.ChatRequest) -> bool:
    reports_chunks = (
        counts_every_chunk(request.stream_options) or request.timings_per_token or request.return_progress
    )
    return bool(request.return_token_ids or (request.stream and reports_chunks))


def _response_format(requested: schema.ResponseFormat | None) -> Constraint | None:
    match requested:
        case None | schema.ChatTextFormat():
            return None
        case schema.ChatObjectFormat(schema=None, value=None):
            return object_constraint("response_format")
        case schema.ChatObjectFormat(schema=None, value=given):
            return schema_constraint(given, param="response_format.value", is_strict=False)
        case schema.ChatObjectFormat(schema=given):
            return schema_constraint(given, param="response_format.schema", is_strict=False)
        case schema.ChatSchemaFormat(json_schema=named):
            return schema_constraint(
                named.schema, param="response_format.json_schema.schema", is_strict=bool(named.strict)
            )
        case schema.ChatGrammarFormat(grammar=grammar):
            return Constraint(kind="grammar", value=grammar, param="response_format.grammar")
        case _:
            assert_never(requested)


def _thinking(request: schema.ChatRequest, in_kwargs: bool | None) -> ThinkingOptions:
    reasoning = request.reasoning or schema.ReasoningSwitch()
    switch = request.thinking
    return thinking_options(
        switches=(
            request.enable_thinking,
            request.think,
            _THINKING_TYPES.get(switch.type) if isinstance(switch, schema.ThinkingSwitch) else switch,
            reasoning.enabled,
            in_kwargs,
        ),
        efforts=(request.reasoning_effort, reasoning.effort),
        budgets=(
            request.thinking_budget,
            switch.budget_tokens if isinstance(switch, schema.ThinkingSwitch) else None,
            reasoning.max_tokens,
        ),
    )


def translate_messages(
    messages: Sequence[schema.ChatMessage], before: Sequence[Message] = ()
) -> tuple[Message, ...]:
    """Translate messages that follow those `before`. Raises InvalidRequest.

    Tool results may answer calls of messages `before`.
    """
    call_ids = {call.id for message in before for call in message.tool_calls}
    translated = []
    for index, message in enumerate(messages):
        path = f"messages[{index}]"
        if isinstance(message, schema.ChatToolMessage):
            check_result_id(message.tool_call_id, call_ids, path=f"{path}.tool_call_id")
        if isinstance(message, schema.ChatAssistantMessage):
            call_ids.update(call.id for call in message.tool_calls or ())
        translated.append(_message(message, path))
    return tuple(translated)


def _message(message: schema.ChatMessage, path: str) -> Message:
    match message:
        case schema.ChatSystemMessage():
            return Message(role="system", parts=tuple(_content(message.content, path)), name=message.name)
        case schema.ChatUserMessage():
            return Message(role="user", parts=tuple(_content(message.content, path)), name=message.name)
        case schema.ChatAssistantMessage():
            return Message(role="assistant", parts=tuple(_answer(message, path)), name=message.name)
        case schema.ChatToolMessage():
            content = tuple(
                part for part in _content(message.content, path) if not isinstance(part, AudioPart)
            )
            return Message(
                role="tool",
                parts=(ToolResultPart(call_id=message.tool_call_id, content=content),),
                name=message.name,
            )
        case _:
            assert_never(message)


def _answer(message: schema.ChatAssistantMessage, path: str) -> Iterable[Part]:
    if message.function_call is not None:
        _refuse(
            f"{path}.function_call",
            f"{path}.function_call is the retired form of tool_calls; send tool_calls",
        )
    thinking = message.reasoning_content or message.reasoning
    if thinking:
        yield ThinkingPart(text=thinking)
    if message.content is not None:
        yield from _content(message.content, path)
    for index, call in enumerate(message.tool_calls or ()):
        yield _call(call, f"{path}.tool_calls[{index}]")


def _call(call: schema.ChatMessageToolCall, path: str) -> ToolCallPart:
    if call.type == "custom":
        if call.custom is None:
            raise missing(f"{path}.custom")
        return ToolCallPart(
            id=call.id, name=call.custom.name, arguments=freeform_arguments(call.custom.input)
        )
    if call.function is None:
        raise missing(f"{path}.function")
    return ToolCallPart(id=call.id, name=call.function.name, arguments=call.function.arguments)


ContentPart = (
    schema.ChatTextPart
    | schema.ChatRefusalPart
    | schema.ChatImagePart
    | schema.ChatAudioPart
    | schema.ChatAudioUrlPart
    | schema.ChatFilePart
    | VideoContent
)


def _content(content: str | Sequence[ContentPart], path: str) -> Iterable[ShownPart | AudioPart]:
    """Yield the non-empty parts; a string equals a list of one text."""
    parts = (schema.ChatTextPart(text=content),) if isinstance(content, str) else content
    for index, part in enumerate(parts):
        match part:
            case schema.ChatTextPart():
                if part.text:
                    yield TextPart(text=part.text)
            case schema.ChatImagePart():
                yield image_from_url(part.image_url.url, f"{path}.content[{index}].image_url.url")
            case schema.ChatAudioPart():
                sound = part.input_audio
                yield audio_from_base64(sound.data, sound.format, f"{path}.content[{index}].input_audio")
            case schema.ChatAudioUrlPart():
                yield audio_from_url(part.audio_url.url, f"{path}.content[{index}].audio_url.url")
            case schema.ChatFilePart(file=file):
                where = f"{path}.content[{index}].file"
                yield from file_parts(file.file_data, file.filename, where, file_id=file.file_id)
            case VideoUrlPart() | QwenVideoPart() | InputVideoPart():
                yield video_of(part, f"{path}.content[{index}]")
            case schema.ChatRefusalPart():
                pass
            case _:
                assert_never(part)
