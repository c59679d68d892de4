"""Responses bodies, with their stored context, to GenerationRequest.

Errors name the caller's field.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from mlxctl.ir import (
    Constraint,
    GenerationRequest,
    Message,
    SamplingOptions,
    StoredItem,
    TextPart,
    ThinkingOptions,
)
from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols.decoding import decode_body, decode_part
from mlxctl.protocols.encoder import Reference, StoredContext
from mlxctl.protocols.extension_fields import with_extensions
from mlxctl.protocols.openai.responses import schema
from mlxctl.protocols.openai.responses.items import (
    ADDITIONAL_TOOLS,
    UNSUPPORTED_ITEM_TYPES,
    ResponsesConversation,
    item_type,
    referred_id,
    stored_item,
)
from mlxctl.protocols.openai.responses.tools import OfferedTools
from mlxctl.protocols.priority import tier_priority
from mlxctl.protocols.sampling_fields import sampling_options
from mlxctl.protocols.structured_output import object_constraint, requested_constraint, schema_constraint
from mlxctl.protocols.thinking_switches import template_arguments, thinking_options
from mlxctl.protocols.validation_errors import missing

_DECODER = msgspec.json.Decoder(schema.ResponsesRequest)
_ADDITIONAL_TOOLS = msgspec.json.Decoder(schema.AdditionalTools)
_WITH_LOGPROBS = "message.output_text.logprobs"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadInput:
    """The parsed input of a request.

    All messages, the request's own items, and dropped item types.
    """

    messages: tuple[Message, ...]
    own_items: tuple[StoredItem, ...]
    dropped: tuple[str, ...]


def decode_responses(body: bytes, *, needs_input: bool) -> schema.ResponsesRequest:
    """Decode a body and refuse unsupported fields by name.

    Without `needs_input`, previous_response_id suffices. Raises InvalidRequest.
    """
    request = decode_body(body, _DECODER)
    if request.input is None and (needs_input or request.previous_response_id is None):
        raise missing("input")
    if request.input == []:
        raise InvalidRequest("input is empty; send a text, or at least one item", param="input")
    if request.background:
        _refuse("background", "background is not supported; leave it out, or stream")
    if request.conversation is not None:
        _refuse(
            "conversation",
            "conversation is not supported; use previous_response_id",
        )
    if request.prompt is not None:
        _refuse(
            "prompt",
            "prompt is not supported; send instructions and input",
        )
    if request.moderation is not None:
        _refuse("moderation", "moderation is not supported; leave it out")
    return request


def _refuse(param: str, message: str) -> None:
    raise InvalidRequest(message, param=param, code="unsupported_parameter")


def reference(request: schema.ResponsesRequest) -> Reference | None:
    """Return what to look up before parsing, if anything. Raises InvalidRequest."""
    items = request.input if isinstance(request.input, list) else ()
    paths = [(item, f"input[{index}]") for index, item in enumerate(items)]
    item_ids = tuple(
        referred_id(item, path) for item, path in paths if item_type(item, path) == "item_reference"
    )
    if request.previous_response_id is None and not item_ids:
        return None
    return Reference(stream=bool(request.stream), previous_id=request.previous_response_id, item_ids=item_ids)


def offered_tools(request: schema.ResponsesRequest) -> list[tuple[msgspec.Raw, str]]:
    """Return all offered tools, each with its path.

    Tools may be in `tools` and in items of the input.
    """
    tools = [(tool, f"tools[{index}]") for index, tool in enumerate(request.tools or ())]
    for index, item in enumerate(request.input if isinstance(request.input, list) else ()):
        path = f"input[{index}]"
        if item_type(item, path) == ADDITIONAL_TOOLS:
            more = decode_part(item, _ADDITIONAL_TOOLS, path).tools or ()
            tools += [(tool, f"{path}.tools[{place}]") for place, tool in enumerate(more)]
    return tools


def read_input(request: schema.ResponsesRequest, context: StoredContext, *, fallback_id: str) -> ReadInput:
    """Parse the conversation. Raises InvalidRequest.

    Items without an id get one made of `fallback_id`.
    """
    conversation = ResponsesConversation()
    dropped: list[str] = []
    if request.previous_response_id is not None:
        _add_earlier(conversation, request.previous_response_id, context)
    if isinstance(request.input, str):
        conversation.add_user_text(request.input)
        message = {"type": "message", "role": "user", "content": request.input}
        own = [stored_item(msgspec.Raw(msgspec.json.encode(message)), "message", "input", f"{fallback_id}i0")]
    else:
        own = _add_items(conversation, request.input or (), context, dropped, fallback_id)
    messages = conversation.messages()
    if not messages:
        raise InvalidRequest(
            "input has no item that a model can read; send at least one message", param="input"
        )
    if request.instructions:
        messages = (Message(role="system", parts=(TextPart(text=request.instructions),)), *messages)
    return ReadInput(messages=messages, own_items=tuple(own), dropped=tuple(dropped))


def _add_earlier(conversation: ResponsesConversation, previous_id: str, context: StoredContext) -> None:
    if context.conversation is None:
        message = (
            f"previous_response_id is {previous_id!r}, but no such response is stored; send its items as "
            "input"
        )
        raise InvalidRequest(message, param="previous_response_id", code="previous_response_not_found")
    for stored in context.conversation:
        item = msgspec.Raw(stored.body)
        conversation.add(item, item_type(item, "previous_response_id"), "previous_response_id")


def _add_items(
    conversation: ResponsesConversation,
    items: Sequence[msgspec.Raw],
    context: StoredContext,
    dropped: list[str],
    fallback_id: str,
) -> list[StoredItem]:
    own: list[StoredItem] = []
    for index, given in enumerate(items):
        path = f"input[{index}]"
        item, kind = given, item_type(given, path)
        if kind == "item_reference":
            item = _referred(item, context, path)
            kind = item_type(item, path)
        if kind == ADDITIONAL_TOOLS:
            continue
        if kind in UNSUPPORTED_ITEM_TYPES:
            dropped.append(kind)
            continue
        conversation.add(item, kind, path)
        own.append(stored_item(item, kind, path, f"{fallback_id}i{index:x}"))
    return own


def _referred(item: msgspec.Raw, context: StoredContext, path: str) -> msgspec.Raw:
    item_id = referred_id(item, path)
    if item_id not in context.items:
        message = f"{path}.id is {item_id!r}, but no such item is stored; send the item itself"
        raise InvalidRequest(message, param=f"{path}.id")
    return msgspec.Raw(context.items[item_id])


def to_generation_request(
    request: schema.ResponsesRequest, messages: tuple[Message, ...], offer: OfferedTools
) -> GenerationRequest:
    """Translate a decoded body. Raises InvalidRequest."""
    tools, choice = offer.choose(request.tool_choice)
    in_kwargs, template_kwargs = template_arguments(request.chat_template_kwargs)
    translated = GenerationRequest(
        model=request.model,
        messages=messages,
        tools=tools,
        tool_choice=choice,
        parallel_tool_calls=request.parallel_tool_calls is not False,
        sampling=_sampling(request),
        thinking=_thinking(request, in_kwargs),
        constraint=requested_constraint(request, _text_format(request.text)),
        max_tokens=0 if request.generate is False else request.max_output_tokens,
        template_kwargs=template_kwargs,
        context_overflow="drop_oldest" if request.truncation == "auto" else None,
        stream=bool(request.stream),
        priority=tier_priority(request.service_tier),
    )
    return with_extensions(translated, request)


def _sampling(request: schema.ResponsesRequest) -> SamplingOptions:
    wants_logprobs = bool(request.top_logprobs) or _WITH_LOGPROBS in (request.include or ())
    return sampling_options(request, num_top_logprobs=(request.top_logprobs or 0) if wants_logprobs else None)


def _text_format(options: schema.TextOptions | None) -> Constraint | None:
    match options.format if options else None:
        case schema.ResponsesObjectFormat():
            return object_constraint("text.format")
        case schema.ResponsesSchemaFormat(schema=None):
            raise missing("text.format.schema")
        case schema.ResponsesSchemaFormat() as json_format:
            return schema_constraint(
                json_format.schema, param="text.format.schema", is_strict=bool(json_format.strict)
            )
        case _:
            return None


def _thinking(request: schema.ResponsesRequest, in_kwargs: bool | None) -> ThinkingOptions:
    return thinking_options(
        switches=(request.enable_thinking, request.think, in_kwargs),
        efforts=(request.reasoning.effort if request.reasoning else None,),
        budgets=(request.thinking_budget,),
    )
