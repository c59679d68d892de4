"""Messages bodies to GenerationRequest; errors name the caller's field."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import assert_never

import msgspec

from mlxctl.ir import (
    Constraint,
    GenerationRequest,
    SamplingOptions,
    ThinkingOptions,
    ToolChoice,
    ToolSpec,
)
from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols.anthropic import messages_schema as schema
from mlxctl.protocols.anthropic.cache_breakpoints import breakpoint_options
from mlxctl.protocols.anthropic.client_tools import client_tool
from mlxctl.protocols.anthropic.context_management import context_edits
from mlxctl.protocols.anthropic.conversation import AnthropicConversation
from mlxctl.protocols.decoding import check_nesting, decode_body
from mlxctl.protocols.extension_fields import with_extensions
from mlxctl.protocols.ranges import top_k_option
from mlxctl.protocols.structured_output import schema_constraint
from mlxctl.protocols.thinking_switches import template_arguments, thinking_options
from mlxctl.protocols.tool_checks import check_tool_choice, check_unique_names
from mlxctl.protocols.validation_errors import missing

# Sets of tools that the client runs.
_CLIENT_TOOLSETS = ("browser_toolset_", "computer_toolset_")
_MESSAGES = msgspec.json.Decoder(schema.MessagesRequest)
_COUNT_TOKENS = msgspec.json.Decoder(schema.CountTokensRequest)


def decode_messages(body: bytes) -> schema.MessagesRequest:
    """Decode a body and refuse unsupported fields by name. Raises InvalidRequest."""
    request = decode_body(body, _MESSAGES)
    _check_supported(request)
    if request.n not in (None, 1):
        raise InvalidRequest(
            "n is not a field of this protocol, which answers with one message; leave it out", param="n"
        )
    return request


def decode_count_tokens(body: bytes) -> schema.CountTokensRequest:
    """Decode a `count_tokens` body. Raises InvalidRequest."""
    request = decode_body(body, _COUNT_TOKENS)
    _check_supported(request)
    check_is_whole(request)
    return request


def check_is_whole(request: schema.CountTokensRequest) -> None:
    """Raise InvalidRequest for a request that needs a stored conversation."""
    if isinstance(request.thread, schema.ContinueThread):
        raise InvalidRequest(
            "thread.type 'continue' is not supported here; send the whole conversation without thread",
            param="thread.type",
            code="thread_unsupported_request",
        )


def dropped_tool_types(request: schema.MessagesRequest) -> tuple[str, ...]:
    """Return the types of offered tools that only Anthropic can run."""
    return tuple(
        tool.type
        for tool in request.tools or ()
        if tool.type not in (None, "custom") and client_tool(tool.type) is None
    )


def to_generation_request(
    request: schema.MessagesRequest, before: Sequence[schema.ConversationMessage] = ()
) -> GenerationRequest:
    """Translate a decoded body, with the stored messages `before` its own.

    Raises InvalidRequest.
    """
    prompt = _prompt_request(request, before)
    translated = replace(
        prompt,
        sampling=SamplingOptions(
            temperature=request.temperature,
            top_p=request.top_p,
            top_k=top_k_option(request.top_k),
        ),
        constraint=_constraint(request),
        max_tokens=request.max_tokens,
        stop=tuple(request.stop_sequences or ()),
        stream=bool(request.stream),
        priority=0 if request.service_tier == "standard_only" else None,
        cache=breakpoint_options(request, partial(_prompt_request, before=before), prompt),
    )
    return with_extensions(translated, request)


def to_prompt_request(request: schema.CountTokensRequest) -> GenerationRequest:
    """Translate a decoded `count_tokens` body. Raises InvalidRequest."""
    return with_extensions(_prompt_request(request), request)


def _prompt_request(
    request: schema.CountTokensRequest, before: Sequence[schema.ConversationMessage] = ()
) -> GenerationRequest:
    """Translate the fields that decide the prompt.

    Shared by both routes, so that a count is that of the request itself.
    """
    specs = _tool_specs(request.tools or [])
    deferred = {
        tool.name or (known.name if (known := client_tool(tool.type)) else None)
        for tool in request.tools or ()
        if tool.defer_loading
    }
    choice = _choice(request, specs)
    in_kwargs, template_kwargs = template_arguments(request.chat_template_kwargs)
    messages = AnthropicConversation(
        deferred_tools={name: spec for name, spec in specs.items() if name in deferred}
    ).read(request, before)
    return GenerationRequest(
        model=request.model,
        messages=messages,
        continues_answer=bool(messages) and messages[-1].is_start_of_answer,
        tools=tuple(spec for name, spec in specs.items() if name not in deferred),
        tool_choice=choice,
        parallel_tool_calls=not getattr(request.tool_choice, "disable_parallel_tool_use", False),
        thinking=_thinking(request, choice, in_kwargs),
        template_kwargs=template_kwargs,
        context_edits=context_edits(request.context_management),
    )


def _check_supported(request: schema.CountTokensRequest) -> None:
    if not request.messages:
        raise InvalidRequest("messages is empty; send at least one message", param="messages")
    for field in ("container", "mcp_servers", "compaction"):
        if getattr(request, field):
            raise InvalidRequest(f"{field} is not supported; leave it out", param=field)


def _tool_specs(tools: list[schema.AnthropicTool]) -> Mapping[str, ToolSpec]:
    """Return the tools offered to the model by name, in order."""
    names: list[tuple[str, str]] = []
    specs: dict[str, ToolSpec] = {}
    for index, tool in enumerate(tools):
        spec = _tool_spec(tool, f"tools[{index}]")
        if spec is not None:
            names.append((spec.name, f"tools[{index}].name"))
            specs[spec.name] = spec
    check_unique_names(names)
    return specs


def _tool_spec(tool: schema.AnthropicTool, path: str) -> ToolSpec | None:
    """Return a tool that the client runs.

    None for one that Anthropic runs.
    """
    known = client_tool(tool.type)
    if known is not None:
        return ToolSpec(
            name=tool.name or known.name,
            description=known.describe(tool),
            parameters=known.parameters,
            is_strict=bool(tool.strict),
            param=path,
        )
    if tool.type is not None and tool.type.startswith(_CLIENT_TOOLSETS):
        raise InvalidRequest(
            f"{path}.type {tool.type!r} is not supported; offer the tools one by one",
            param=f"{path}.type",
        )
    if tool.type not in (None, "custom"):
        return None
    for field in ("name", "input_schema"):
        if getattr(tool, field) is None:
            raise missing(f"{path}.{field}")
    check_nesting(tool.input_schema, f"{path}.input_schema")
    return ToolSpec(
        name=tool.name or "",
        description=tool.description or "",
        parameters=tool.input_schema or {},
        is_strict=bool(tool.strict),
        param=f"{path}.input_schema",
    )


def _choice(request: schema.CountTokensRequest, specs: Iterable[str]) -> ToolChoice:
    match request.tool_choice:
        case schema.AnyChoice():
            choice = ToolChoice(mode="required")
        case schema.ToolNameChoice(name=name):
            choice = ToolChoice(mode="named", name=name)
        case schema.NoneChoice():
            choice = ToolChoice(mode="none")
        case schema.AutoChoice() | None:
            choice = ToolChoice()
        case _:
            assert_never(request.tool_choice)
    check_tool_choice(choice, set(specs), param="tool_choice", name_param="tool_choice.name")
    return choice


def _thinking(
    request: schema.CountTokensRequest, choice: ToolChoice, in_kwargs: bool | None
) -> ThinkingOptions:
    mode = request.thinking.type if request.thinking else "adaptive"
    if mode == "enabled" and choice.is_forced:
        raise InvalidRequest(
            "thinking cannot be enabled while tool_choice forces a tool call; disable one of them",
            param="thinking.type",
        )
    enabled = {"enabled": True, "disabled": False, "between_tools": False, "adaptive": None}[mode]
    return thinking_options(
        switches=(enabled, request.enable_thinking, request.think, in_kwargs),
        efforts=(request.output_config.effort if request.output_config else None,),
        budgets=(request.thinking.budget_tokens if request.thinking else None,),
    )


def _constraint(request: schema.MessagesRequest) -> Constraint | None:
    """Return the requested output format, from its current or its older field.

    Schemas are strict: enforced, or refused.
    """
    formats = {
        "output_config.format": request.output_config.format if request.output_config else None,
        "output_format": request.output_format,
    }
    given = [(path, requested) for path, requested in formats.items() if requested is not None]
    if len(given) > 1:
        raise InvalidRequest(
            "output_format is the older name of output_config.format; send one of them", param="output_format"
        )
    if not given:
        return None
    path, requested = given[0]
    return schema_constraint(requested.schema, param=f"{path}.schema", is_strict=True)
