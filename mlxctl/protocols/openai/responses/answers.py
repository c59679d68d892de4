"""The response object and its output items."""

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from mlxctl.protocols.json_union import JsonUnion
from mlxctl.protocols.openai.chat_answers import SampledTokenLogprob
from mlxctl.protocols.openai.usage import ReasoningTokens
from mlxctl.protocols.priority import ServedTier

ItemStatus = Literal["in_progress", "completed", "incomplete"]
ResponseStatus = Literal["completed", "incomplete", "failed", "in_progress"]


class ResponseInputTokens(Struct):
    """Prompt tokens read from the prefix cache, and newly cached ones."""

    cached_tokens: int
    cache_write_tokens: int


class ResponseUsage(Struct):
    """Token counts of a response.

    `dropped_messages` is there if `truncation` left messages out.
    """

    input_tokens: int
    input_tokens_details: ResponseInputTokens
    output_tokens: int
    output_tokens_details: ReasoningTokens
    total_tokens: int
    dropped_messages: int | UnsetType = UNSET


class OutputTextPart(Struct, tag_field="type", tag="output_text"):
    """Text of a message."""

    text: str
    annotations: list[None]
    logprobs: list[SampledTokenLogprob]


class ReasoningTextPart(Struct, tag_field="type", tag="reasoning_text"):
    """Thinking of the model, verbatim."""

    text: str


class SummaryTextPart(Struct, tag_field="type", tag="summary_text"):
    """A summary of thinking."""

    text: str


class OutputItem(JsonUnion):
    """An item of a response's output."""

    __slots__ = ()
    id: str


class MessageItem(Struct, OutputItem):
    """A message of the model as an output item."""

    id: str
    type: Literal["message"]
    status: ItemStatus
    role: Literal["assistant"]
    content: list[OutputTextPart]


class ReasoningItem(Struct, OutputItem, kw_only=True):
    """Thinking of an answer.

    Verbatim in `content`, or in `summary` if the request asks for one.
    """

    id: str
    type: Literal["reasoning"]
    summary: list[SummaryTextPart]
    content: list[ReasoningTextPart] | UnsetType = UNSET
    encrypted_content: str | UnsetType = UNSET
    status: ItemStatus


class FunctionCallItem(Struct, OutputItem):
    """A call of a function; `arguments` is JSON text."""

    id: str
    type: Literal["function_call"]
    status: ItemStatus
    call_id: str
    name: str
    arguments: str
    namespace: str | UnsetType = UNSET


class CustomCallItem(Struct, OutputItem):
    """A call of a custom tool, which takes free text."""

    id: str
    type: Literal["custom_tool_call"]
    status: ItemStatus
    call_id: str
    name: str
    input: str
    namespace: str | UnsetType = UNSET


class ResponseError(Struct):
    """Why the response failed."""

    code: str
    message: str


class IncompleteDetails(Struct):
    """Why the response is incomplete."""

    reason: Literal["max_output_tokens", "content_filter"]


class ReasoningSettings(Struct):
    """The reasoning options of the request."""

    effort: str | None
    summary: str | None


class TextSettings(Struct):
    """The text options of the request."""

    format: dict[str, Any]
    verbosity: str | UnsetType = UNSET


class ResponseAnswer(Struct, kw_only=True):
    """A response, with the settings that it was created with."""

    id: str
    object: Literal["response"]
    created_at: int
    status: ResponseStatus
    background: Literal[False]
    completed_at: int | None
    error: ResponseError | None
    incomplete_details: IncompleteDetails | None
    instructions: str | None
    max_output_tokens: int | None
    max_tool_calls: int | None
    model: str
    output: list[OutputItem]
    parallel_tool_calls: bool
    previous_response_id: str | None
    prompt_cache_key: str | None
    reasoning: ReasoningSettings
    safety_identifier: str | None
    service_tier: ServedTier
    store: bool
    temperature: float | None
    text: TextSettings
    tool_choice: str | dict[str, Any]
    tools: list[dict[str, Any]]
    top_logprobs: int
    top_p: float | None
    presence_penalty: float | None
    frequency_penalty: float | None
    truncation: str
    usage: ResponseUsage | None
    user: str | None
    metadata: dict[str, Any]
