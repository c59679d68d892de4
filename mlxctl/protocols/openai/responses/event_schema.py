"""The events of a streamed response."""

from typing import Literal

from msgspec import Struct

from mlxctl.protocols.openai.chat_answers import SampledTokenLogprob
from mlxctl.protocols.openai.responses.answers import (
    OutputItem,
    OutputTextPart,
    ReasoningTextPart,
    ResponseAnswer,
    SummaryTextPart,
)

ResponseEventType = Literal[
    "response.created", "response.in_progress", "response.completed", "response.incomplete", "response.failed"
]  # fmt: skip


class ResponseEvent(Struct, kw_only=True):
    """The response at a stage of its life."""

    type: ResponseEventType
    response: ResponseAnswer
    sequence_number: int


class ItemEvent(Struct, kw_only=True):
    """An output item starts or has ended."""

    type: Literal["response.output_item.added", "response.output_item.done"]
    output_index: int
    item: OutputItem
    sequence_number: int


class _InItem(Struct, kw_only=True):
    """The first fields of an event within an item.

    `sequence_number` is the last field of every event.
    """

    type: str
    item_id: str
    output_index: int


class PartEvent(_InItem, kw_only=True):
    """A part of an item starts or has ended."""

    type: Literal["response.content_part.added", "response.content_part.done"]
    content_index: int
    part: OutputTextPart | ReasoningTextPart
    sequence_number: int


class SummaryPartEvent(_InItem, kw_only=True):
    """A part of a summary starts or has ended."""

    type: Literal["response.reasoning_summary_part.added", "response.reasoning_summary_part.done"]
    summary_index: int
    part: SummaryTextPart
    sequence_number: int


class TextDeltaEvent(_InItem, kw_only=True):
    """The next piece of an item's text."""

    type: Literal["response.output_text.delta"]
    content_index: int
    delta: str
    logprobs: list[SampledTokenLogprob]
    sequence_number: int


class TextDoneEvent(_InItem, kw_only=True):
    """The whole text of a part that ended."""

    type: Literal["response.output_text.done"]
    content_index: int
    text: str
    logprobs: list[SampledTokenLogprob]
    sequence_number: int


class ReasoningDeltaEvent(_InItem, kw_only=True):
    """The next piece of the thinking."""

    type: Literal["response.reasoning_text.delta"]
    content_index: int
    delta: str
    sequence_number: int


class ReasoningDoneEvent(_InItem, kw_only=True):
    """The whole thinking of an item that ended."""

    type: Literal["response.reasoning_text.done"]
    content_index: int
    text: str
    sequence_number: int


class SummaryDeltaEvent(_InItem, kw_only=True):
    """More of a summary."""

    type: Literal["response.reasoning_summary_text.delta"]
    summary_index: int
    delta: str
    sequence_number: int


class SummaryDoneEvent(_InItem, kw_only=True):
    """The whole summary of an item that ended."""

    type: Literal["response.reasoning_summary_text.done"]
    summary_index: int
    text: str
    sequence_number: int


class ArgumentsDeltaEvent(_InItem, kw_only=True):
    """More of a call's arguments."""

    type: Literal["response.function_call_arguments.delta"]
    delta: str
    sequence_number: int


class ArgumentsDoneEvent(_InItem, kw_only=True):
    """The whole arguments of a call."""

    type: Literal["response.function_call_arguments.done"]
    name: str
    arguments: str
    sequence_number: int


class InputDeltaEvent(_InItem, kw_only=True):
    """More of a custom tool's input."""

    type: Literal["response.custom_tool_call_input.delta"]
    delta: str
    sequence_number: int


class InputDoneEvent(_InItem, kw_only=True):
    """The whole input of a custom tool."""

    type: Literal["response.custom_tool_call_input.done"]
    input: str
    sequence_number: int


DeltaEvent = TextDeltaEvent | ReasoningDeltaEvent | SummaryDeltaEvent | ArgumentsDeltaEvent | InputDeltaEvent
ResponseStreamEvent = ResponseEvent | ItemEvent | _InItem
RESPONSE_EVENTS = (
    ResponseEvent, ItemEvent, PartEvent, SummaryPartEvent, TextDeltaEvent, TextDoneEvent, ReasoningDeltaEvent,
    ReasoningDoneEvent, SummaryDeltaEvent, SummaryDoneEvent, ArgumentsDeltaEvent, ArgumentsDoneEvent,
    InputDeltaEvent, InputDoneEvent,
)  # fmt: skip
"""Every event of a stream, apart from its end mark."""
