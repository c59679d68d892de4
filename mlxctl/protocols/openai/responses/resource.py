"""The response object at each stage of its life."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import UNSET

from mlxctl.ir import FinishReason, SamplingParams, Usage
from mlxctl.ir.errors import MlxctlError
from mlxctl.protocols.error_body import error_message
from mlxctl.protocols.openai.responses import schema
from mlxctl.protocols.openai.responses.answers import (
    IncompleteDetails,
    OutputItem,
    ReasoningSettings,
    ResponseAnswer,
    ResponseError,
    ResponseInputTokens,
    ResponseStatus,
    ResponseUsage,
    TextSettings,
)
from mlxctl.protocols.openai.responses.tools import OfferedTools
from mlxctl.protocols.openai.usage import ReasoningTokens
from mlxctl.protocols.priority import served_tier


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseTemplate:
    """The constant part of a response: id, request and sampling.

    `created` is in unix seconds; `sampling` is final, with the model's defaults.
    """

    id: str
    created: int
    request: schema.ResponsesRequest
    offer: OfferedTools
    sampling: SamplingParams

    def in_progress(self) -> ResponseAnswer:
        """Return the response before its answer."""
        return self._answer("in_progress")

    def finished(
        self, reason: FinishReason, output: Sequence[OutputItem], usage: Usage, completed_at: int
    ) -> ResponseAnswer:
        """Return the response with its output.

        It is incomplete if it ran out of tokens, or a guardrail ended it.
        """
        response = self._answer("completed", output=output, usage=response_usage(usage))
        if reason in ("length", "refusal"):
            response.status = "incomplete"
            response.incomplete_details = IncompleteDetails(
                reason="max_output_tokens" if reason == "length" else "content_filter"
            )
        else:
            response.completed_at = completed_at
        return response

    def failed(self, error: MlxctlError, output: Sequence[OutputItem]) -> ResponseAnswer:
        """Return the failed response with its output so far."""
        response = self._answer("failed", output=output)
        response.error = ResponseError(code="server_error", message=error_message(error))
        return response

    def _answer(
        self, status: ResponseStatus, *, output: Sequence[OutputItem] = (), usage: ResponseUsage | None = None
    ) -> ResponseAnswer:
        request, sampling = self.request, self.sampling
        return ResponseAnswer(
            id=self.id,
            object="response",
            created_at=self.created,
            status=status,
            background=False,
            completed_at=None,
            error=None,
            incomplete_details=None,
            instructions=request.instructions,
            max_output_tokens=request.max_output_tokens,
            max_tool_calls=request.max_tool_calls,
            model=request.model,
            output=list(output),
            parallel_tool_calls=request.parallel_tool_calls is not False,
            previous_response_id=request.previous_response_id,
            prompt_cache_key=request.prompt_cache_key,
            reasoning=_reasoning(request.reasoning),
            safety_identifier=request.safety_identifier,
            service_tier=served_tier(request.priority, request.service_tier),
            store=request.store is not False,
            temperature=sampling.temperature,
            text=_text(request.text),
            tool_choice=_tool_choice(request.tool_choice),
            tools=self.offer.describe(),
            top_logprobs=request.top_logprobs or 0,
            top_p=sampling.top_p,
            presence_penalty=sampling.presence_penalty,
            frequency_penalty=sampling.frequency_penalty,
            truncation=request.truncation or "disabled",
            usage=usage,
            user=request.user,
            metadata=request.metadata or {},
        )


def response_usage(usage: Usage) -> ResponseUsage:
    """Return the counts as a response has them."""
    return ResponseUsage(
        input_tokens=usage.num_prompt_tokens,
        input_tokens_details=ResponseInputTokens(
            cached_tokens=usage.num_cached_tokens, cache_write_tokens=usage.num_stored_tokens
        ),
        output_tokens=usage.num_completion_tokens,
        output_tokens_details=ReasoningTokens(usage.num_thinking_tokens),
        total_tokens=usage.num_prompt_tokens + usage.num_completion_tokens,
        dropped_messages=usage.num_dropped_messages or UNSET,
    )


def _reasoning(options: schema.ReasoningOptions | None) -> ReasoningSettings:
    if options is None:
        return ReasoningSettings(effort=None, summary=None)
    return ReasoningSettings(effort=options.effort, summary=options.summary or options.generate_summary)


def _text(options: schema.TextOptions | None) -> TextSettings:
    if options is None:
        return TextSettings(format=_format(None))
    return TextSettings(format=_format(options.format), verbosity=options.verbosity or UNSET)


def _format(
    text_format: schema.ResponsesTextFormat
    | schema.ResponsesObjectFormat
    | schema.ResponsesSchemaFormat
    | None,
) -> dict[str, object]:
    match text_format:
        case schema.ResponsesSchemaFormat():
            schema_fields = {
                "schema": text_format.schema or {},
                "strict": bool(text_format.strict),
                "description": text_format.description,
            }
            return {"type": "json_schema", "name": text_format.name or "", **schema_fields}
        case schema.ResponsesObjectFormat():
            return {"type": "json_object"}
        case _:
            return {"type": "text"}


def _tool_choice(choice: str | schema.ResponsesNamedTool | schema.ResponsesAllowedTools | None) -> Any:
    if isinstance(choice, schema.ResponsesNamedTool):
        return {
            "type": "custom" if isinstance(choice, schema.ResponsesNamedCustomTool) else "function",
            **_reference(choice),
        }
    if isinstance(choice, schema.ResponsesAllowedTools):
        tools = [
            {"type": tool.type or "function", **_reference(tool)}
            for tool in choice.tools
            if tool.name is not None
        ]
        return {"type": "allowed_tools", "mode": choice.mode, "tools": tools}
    return choice or "auto"


def _reference(tool: schema.ResponsesNamedTool | schema.ResponsesAllowedTool) -> dict[str, str | None]:
    return {"name": tool.name, "namespace": tool.namespace} if tool.namespace else {"name": tool.name}
