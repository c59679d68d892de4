"""What the Responses API answers, as types: only for the description, as those of completions."""

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from mlxctl.server.openapi.completions import ReasoningTokens, ScoredToken

ItemStatus = Literal["in_progress", "completed", "incomplete"]


class InputTokens(Struct):
    """Tokens of the prompt that were known, and that are known from now on."""

    cached_tokens: int
    cache_write_tokens: int


class ResponseUsage(Struct):
    """Tokens of a response."""

    input_tokens: int
    input_tokens_details: InputTokens
    output_tokens: int
    output_tokens_details: ReasoningTokens
    total_tokens: int


class OutputText(Struct, tag_field="type", tag="output_text"):
    """A piece of the answer."""

    text: str
    annotations: list[None]
    logprobs: list[ScoredToken]


class ReasoningText(Struct, tag_field="type", tag="reasoning_text"):
    """A piece of thinking as it was."""

    text: str


class SummaryText(Struct, tag_field="type", tag="summary_text"):
    """A piece of a summary of thinking."""

    text: str


class MessageItem(Struct, tag_field="type", tag="message"):
    """What the model said."""

    id: str
    status: ItemStatus
    role: Literal["assistant"]
    content: list[OutputText]


class ReasoningItem(Struct, tag_field="type", tag="reasoning"):
    """What the model thought: as it was, or as its own summary where the caller asked for one."""

    id: str
    status: ItemStatus
    summary: list[SummaryText]
    encrypted_content: str | None
    content: list[ReasoningText] | UnsetType = UNSET


class CallItem(Struct, tag_field="type", tag="function_call"):
    """A call of a tool; `arguments` is JSON text."""

    id: str
    status: ItemStatus
    call_id: str
    name: str
    arguments: str
    namespace: str | UnsetType = UNSET


class CustomCallItem(Struct, tag_field="type", tag="custom_tool_call"):
    """A call of a tool that takes any text."""

    id: str
    status: ItemStatus
    call_id: str
    name: str
    input: str
    namespace: str | UnsetType = UNSET


OutputItem = MessageItem | ReasoningItem | CallItem | CustomCallItem


class ResponseFailure(Struct):
    """Why there is no answer."""

    code: str
    message: str


class Incompleteness(Struct):
    """Why the answer stops early."""

    reason: Literal["max_output_tokens"]


class ReasoningSettings(Struct):
    """How thinking was asked for."""

    effort: str | None
    summary: str | None


class TextSettings(Struct):
    """What form the answer was to have."""

    format: dict[str, Any]
    verbosity: str | UnsetType = UNSET


class ResponseAnswer(Struct):
    """A response, with the settings that it was made with."""

    id: str
    object: Literal["response"]
    created_at: int
    status: Literal["completed", "incomplete", "failed", "in_progress"]
    background: Literal[False]
    completed_at: int | None
    error: ResponseFailure | None
    incomplete_details: Incompleteness | None
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
    service_tier: Literal["default"]
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


class ResponseEvent(Struct):
    """How the response is now."""

    type: Literal[
        "response.created", "response.in_progress", "response.completed", "response.incomplete", "response.failed"
    ]  # fmt: skip
    response: ResponseAnswer
    sequence_number: int


class ItemEvent(Struct):
    """An output item begins or has ended."""

    type: Literal["response.output_item.added", "response.output_item.done"]
    output_index: int
    item: OutputItem
    sequence_number: int


class _InItem(Struct, kw_only=True):
    item_id: str
    output_index: int
    sequence_number: int


class PartEvent(_InItem, kw_only=True):
    """The part of an item begins or has ended."""

    type: Literal["response.content_part.added", "response.content_part.done"]
    content_index: int
    part: OutputText | ReasoningText


class SummaryPartEvent(_InItem, kw_only=True):
    """The part of a summary begins or has ended."""

    type: Literal["response.reasoning_summary_part.added", "response.reasoning_summary_part.done"]
    summary_index: int
    part: SummaryText


class TextDeltaEvent(_InItem, kw_only=True):
    """More of the answer."""

    type: Literal["response.output_text.delta"]
    content_index: int
    delta: str
    logprobs: list[ScoredToken]


class TextDoneEvent(_InItem, kw_only=True):
    """All of the answer."""

    type: Literal["response.output_text.done"]
    content_index: int
    text: str
    logprobs: list[ScoredToken]


class ReasoningDeltaEvent(_InItem, kw_only=True):
    """More of the thinking."""

    type: Literal["response.reasoning_text.delta"]
    content_index: int
    delta: str


class ReasoningDoneEvent(_InItem, kw_only=True):
    """All of the thinking."""

    type: Literal["response.reasoning_text.done"]
    content_index: int
    text: str


class SummaryDeltaEvent(_InItem, kw_only=True):
    """More of the thinking's summary."""

    type: Literal["response.reasoning_summary_text.delta"]
    summary_index: int
    delta: str


class SummaryDoneEvent(_InItem, kw_only=True):
    """All of the thinking's summary."""

    type: Literal["response.reasoning_summary_text.done"]
    summary_index: int
    text: str


class ArgumentsDeltaEvent(_InItem, kw_only=True):
    """More of a call's arguments."""

    type: Literal["response.function_call_arguments.delta"]
    delta: str


class ArgumentsDoneEvent(_InItem, kw_only=True):
    """All of a call's arguments."""

    type: Literal["response.function_call_arguments.done"]
    name: str
    arguments: str


class InputDeltaEvent(_InItem, kw_only=True):
    """More of the text that a tool takes."""

    type: Literal["response.custom_tool_call_input.delta"]
    delta: str


class InputDoneEvent(_InItem, kw_only=True):
    """All of the text that a tool takes."""

    type: Literal["response.custom_tool_call_input.done"]
    input: str


RESPONSE_EVENTS = (
    ResponseEvent, ItemEvent, PartEvent, SummaryPartEvent, TextDeltaEvent, TextDoneEvent, ReasoningDeltaEvent, ReasoningDoneEvent,
    SummaryDeltaEvent, SummaryDoneEvent, ArgumentsDeltaEvent, ArgumentsDoneEvent, InputDeltaEvent, InputDoneEvent,
)  # fmt: skip
"""Everything that a stream may say, its end mark aside."""
