"""Anthropic messages.

The stream is `message_start`, then for each block `content_block_start`, deltas and `content_block_stop`,
then `message_delta` with stop reason and final counts, then `message_stop`. Clients lose the text of a block
without a stop, so an error first closes the open block. `event: error` is the last event, as in Anthropic's
API: agents retry after it, while after `message_stop` they would take the partial answer for a whole one.
"""

import secrets
from dataclasses import dataclass
from typing import Literal, assert_never

import msgspec
from msgspec import UNSET, UnsetType

from mlxctl.ir import (
    Collector,
    Finished,
    FinishReason,
    GeneratedTokens,
    GenerationRequest,
    PromptProgress,
    StoredResponse,
    StreamEvent,
    TextDelta,
    TextResult,
    ThinkingDelta,
    ToolArgumentsDelta,
    ToolCallEnded,
    ToolCallStarted,
    Usage,
)
from mlxctl.ir.errors import MlxctlError
from mlxctl.protocols.anthropic.blocks import BlockWriter, content_blocks, encode_event
from mlxctl.protocols.anthropic.cache_breakpoints import cache_controls, last_is_long
from mlxctl.protocols.anthropic.context_management import ContextManagementReport, report
from mlxctl.protocols.anthropic.errors import error_json
from mlxctl.protocols.anthropic.messages_answers import (
    AnswerBlock,
    AnthropicMessage,
    AnthropicUsage,
    CacheCreation,
    MessageDelta,
    MessageEnd,
    MessageStart,
    MessageStop,
    OriginalTokenCount,
    Ping,
    StopReason,
    ThinkingTokens,
    TokenCount,
)
from mlxctl.protocols.anthropic.messages_parsing import (
    check_is_whole,
    decode_count_tokens,
    decode_messages,
    dropped_tool_types,
    to_generation_request,
    to_prompt_request,
)
from mlxctl.protocols.anthropic.messages_schema import ContinueThread, MessagesRequest
from mlxctl.protocols.anthropic.threads import StoredTurn, continued, stored_turn
from mlxctl.protocols.encoder import AnswerStart, Reference, ReplyShape, StoredContext

_STOP_REASONS: dict[FinishReason, StopReason] = {
    "stop": "end_turn",
    "stop_sequence": "stop_sequence",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "refusal": "refusal",
}
_PING = encode_event(Ping())


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageShape(ReplyShape):
    """The shape of a message.

    `turn` is what to store of the request, without ids; None without a thread. `cache_ttl` is that of the
    last cache breakpoint.
    """

    turn: StoredTurn | None
    has_tier: bool
    reports_edits: bool
    omits_thinking: bool
    cache_ttl: Literal["5m", "1h"] | None

    @classmethod
    def of(cls, messages: MessagesRequest, turn: StoredTurn | None) -> "MessageShape":
        """Return the shape that a body asks for."""
        marks = cache_controls(messages)
        return cls(
            model=messages.model,
            dropped_tools=dropped_tool_types(messages),
            turn=turn,
            has_tier=messages.service_tier is not None,
            reports_edits=messages.context_management is not None,
            omits_thinking=messages.thinking is not None and messages.thinking.display == "omitted",
            cache_ttl=("1h" if last_is_long(marks) else "5m") if marks else None,
        )


def parse_messages(body: bytes) -> tuple[GenerationRequest | Reference, MessageShape]:
    """Parse a body, or return the message that it continues. Raises InvalidRequest."""
    messages = decode_messages(body)
    if isinstance(messages.thread, ContinueThread):
        continues = Reference(stream=bool(messages.stream), previous_id=messages.thread.previous_message_id)
        return continues, MessageShape.of(messages, None)
    return to_generation_request(messages), MessageShape.of(messages, stored_turn(messages))


def parse_messages_with(body: bytes, stored: StoredContext) -> tuple[GenerationRequest, MessageShape]:
    """Parse a body that continues a stored conversation. Raises InvalidRequest."""
    messages = decode_messages(body)
    if stored.conversation is None:
        check_is_whole(messages)
        return to_generation_request(messages), MessageShape.of(messages, stored_turn(messages))
    whole, before = continued(messages, stored.conversation)
    return to_generation_request(whole, before), MessageShape.of(whole, stored_turn(whole))


class MessageEncoder:
    """Writes one message.

    Its stream starts with the prompt's token counts. `response_id` is generated if not given. After the end,
    `record` is the turn to store for its thread, None without one.
    """

    begins_with_usage = True

    def __init__(self, shape: MessageShape, *, response_id: str | None = None) -> None:
        self.record: StoredResponse | None = None
        self._shape = shape
        self._model = shape.model
        self._id = response_id or f"msg_{secrets.token_hex(12)}"
        self._has_begun = False
        self._collector = None if shape.turn is None else Collector()
        self._blocks = BlockWriter(omit_thinking=shape.omits_thinking)

    def start(self, start: AnswerStart) -> None:
        """Take the name of the model."""
        self._model = start.model

    def begin(self, prompt: Usage) -> bytes:
        """Return the message_start event."""
        self._has_begun = True
        message = self._message(content=[], stop_reason=None, stop_sequence=None, usage=prompt)
        return encode_event(MessageStart(message)) + _PING

    def on_event(self, event: StreamEvent, number: int = 0) -> bytes:  # noqa: ARG002 -- this protocol has one answer
        """Return the events for `event`; progress is a comment."""
        if self._collector is not None:
            self._collector.add(event)
        match event:
            case TextDelta():
                return self._blocks.text(event.text)
            case ThinkingDelta():
                return self._blocks.thinking(event.text)
            case ToolArgumentsDelta():
                return self._blocks.arguments(event.json)
            case ToolCallStarted():
                return self._blocks.start_call(event.id, event.name)
            case ToolCallEnded():
                return self._blocks.close()
            case GeneratedTokens():
                return b""
            case PromptProgress():
                return b": prefill %d/%d\n\n" % (event.num_processed, event.num_prompt_tokens)
            case Finished():
                end = MessageEnd(stop_reason=_STOP_REASONS[event.reason], stop_sequence=event.stop_sequence)
                return self._blocks.close() + encode_event(
                    MessageDelta(end, self._usage(event.usage), self._edits_report(event.usage))
                )
            case _:
                assert_never(event)

    def finish(self) -> bytes:
        """Return the message_stop event."""
        if self._collector is not None:
            self._keep(self._collector.result())
        return encode_event(MessageStop())

    def on_error(self, error: MlxctlError, *, request_id: str | None = None) -> bytes:
        """Return the stop of the open block and the error."""
        closed = self._blocks.close() if self._has_begun else b""
        return closed + b"event: error\ndata: " + error_json(error, request_id=request_id) + b"\n\n"

    def ping(self) -> bytes:
        """Return a ping, a comment before `message_start`.

        Some clients accept no event before `message_start`.
        """
        return _PING if self._has_begun else b": ping\n\n"

    def whole(self, *results: TextResult) -> bytes:
        """Return the message object."""
        (result,) = results
        self._keep(result)
        return msgspec.json.encode(
            self._message(
                content=content_blocks(result, omit_thinking=self._shape.omits_thinking),
                stop_reason=_STOP_REASONS[result.reason],
                stop_sequence=result.stop_sequence,
                usage=result.usage,
            )
        )

    def _message(
        self,
        *,
        content: list[AnswerBlock],
        stop_reason: StopReason | None,
        stop_sequence: str | None,
        usage: Usage,
    ) -> AnthropicMessage:
        return AnthropicMessage(
            id=self._id,
            type="message",
            role="assistant",
            model=self._model,
            content=content,
            stop_reason=stop_reason,
            stop_sequence=stop_sequence,
            usage=self._usage(usage),
            context_management=UNSET if stop_reason is None else self._edits_report(usage),
        )

    def _keep(self, result: TextResult) -> None:
        if self._shape.turn is not None:
            content = content_blocks(result, omit_thinking=self._shape.omits_thinking)
            self.record = self._shape.turn.answered(self._id, content)

    def _edits_report(self, usage: Usage) -> ContextManagementReport | UnsetType:
        return report(usage.applied_edits) if self._shape.reports_edits else UNSET

    def _usage(self, usage: Usage) -> AnthropicUsage:
        """Return the token counts as Anthropic counts them.

        Read, newly cached and other input tokens add up to the prompt. Newly cached tokens are counted only
        for requests with cache breakpoints, otherwise they are part of `input_tokens`. The last breakpoint
        decides whether they count for 5 minutes or an hour; tokens up to an earlier one-hour breakpoint are
        counted apart.
        """
        num_created = usage.num_stored_tokens if self._shape.cache_ttl else 0
        num_long = (
            num_created
            if self._shape.cache_ttl == "1h"
            else min(usage.num_long_ttl_stored_tokens, num_created)
        )
        return AnthropicUsage(
            input_tokens=usage.num_prompt_tokens - usage.num_cached_tokens - num_created,
            cache_creation_input_tokens=num_created,
            cache_creation=CacheCreation(
                ephemeral_5m_input_tokens=num_created - num_long, ephemeral_1h_input_tokens=num_long
            ),
            cache_read_input_tokens=usage.num_cached_tokens,
            output_tokens=usage.num_completion_tokens,
            output_tokens_details=ThinkingTokens(usage.num_thinking_tokens),
            service_tier="standard" if self._shape.has_tier else None,
            dropped_messages=usage.num_dropped_messages or UNSET,
        )


def parse_count_tokens(body: bytes) -> GenerationRequest:
    """Parse a `count_tokens` body as a request. Raises InvalidRequest."""
    return to_prompt_request(decode_count_tokens(body))


def encode_token_count(num_tokens: int, *, num_unedited_tokens: int | None = None) -> bytes:
    """Return the body of a token count.

    `num_unedited_tokens` is the count without the request's context edits, None if it has none.
    """
    unedited = UNSET if num_unedited_tokens is None else OriginalTokenCount(num_unedited_tokens)
    return msgspec.json.encode(TokenCount(input_tokens=num_tokens, context_management=unedited))
