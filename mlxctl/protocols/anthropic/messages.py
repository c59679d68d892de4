"""Formatter of Anthropic messages.

The stream is `message_start`, then for each block `content_block_start`, deltas and `content_block_stop`,
then `message_delta` with stop reason and final counts, then `message_stop`. Clients lose the text of a block
without a stop, so an error first closes the open block. `event: error` is the last event, as in Anthropic's
API: agents retry after it, while after `message_stop` they would take the partial answer for a whole one.
"""

import secrets
from collections.abc import Sequence
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
    StoredItem,
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
from mlxctl.protocols.anthropic.messages_schema import ContinueThread, ConversationMessage, MessagesRequest
from mlxctl.protocols.anthropic.threads import continued, stored_turn, with_answer

_STOP_REASONS: dict[FinishReason, StopReason] = {
    "stop": "end_turn",
    "stop_sequence": "stop_sequence",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "refusal": "refusal",
}
_PING = encode_event(Ping())


class AnthropicMessagesFormatter:
    """Formatter of one message.

    Its stream starts with the prompt's token counts. `response_id` is generated if not given. `parse` takes
    whole conversations only; `parse_or_refer` and `parse_again` also those that continue a thread. After the
    end, `record` is the turn to store for its thread.
    """

    begins_with_usage = True

    def __init__(self, *, response_id: str | None = None) -> None:
        self.dropped_tools: tuple[str, ...] = ()
        self.record: StoredResponse | None = None
        self._turn: StoredResponse | None = None
        self._collector: Collector | None = None
        self._id = response_id or f"msg_{secrets.token_hex(12)}"
        self._has_begun = False
        self._cache_ttl: Literal["5m", "1h"] | None = None

    def parse(self, body: bytes) -> GenerationRequest:
        """Parse a request body. Raises InvalidRequest."""
        messages = decode_messages(body)
        check_is_whole(messages)
        return self._adopt(messages)

    def parse_or_refer(self, body: bytes) -> GenerationRequest | str:
        """Parse a request, or return the id of the message it continues.

        Raises InvalidRequest.
        """
        messages = decode_messages(body)
        if isinstance(messages.thread, ContinueThread):
            return messages.thread.previous_message_id
        return self._adopt(messages)

    def parse_again(self, body: bytes, stored: Sequence[StoredItem]) -> GenerationRequest:
        """Parse a request that continues a stored conversation. Raises InvalidRequest."""
        return self._adopt(*continued(decode_messages(body), stored))

    def _adopt(
        self, messages: MessagesRequest, before: Sequence[ConversationMessage] = ()
    ) -> GenerationRequest:
        request = to_generation_request(messages, before)
        self._turn = stored_turn(messages, self._id)
        self._collector = None if self._turn is None else Collector()
        self.dropped_tools = dropped_tool_types(messages)
        self._model = messages.model
        self._has_tier = messages.service_tier is not None
        self._reports_edits = messages.context_management is not None
        marks = cache_controls(messages)
        self._cache_ttl = ("1h" if last_is_long(marks) else "5m") if marks else None
        self._omit_thinking = messages.thinking is not None and messages.thinking.display == "omitted"
        self._blocks = BlockWriter(omit_thinking=self._omit_thinking)
        return request

    def set_model(self, name: str) -> None:
        """Set the name of the model in the answer."""
        self._model = name

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
                content=content_blocks(result, omit_thinking=self._omit_thinking),
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
        if self._turn is not None:
            self.record = with_answer(self._turn, content_blocks(result, omit_thinking=self._omit_thinking))

    def _edits_report(self, usage: Usage) -> ContextManagementReport | UnsetType:
        return report(usage.applied_edits) if self._reports_edits else UNSET

    def _usage(self, usage: Usage) -> AnthropicUsage:
        """Return the token counts as Anthropic counts them.

        Read, newly cached and other input tokens add up to the prompt. Newly cached tokens are counted only
        for requests with cache breakpoints, otherwise they are part of `input_tokens`. The last breakpoint
        decides whether they count for 5 minutes or an hour; tokens up to an earlier one-hour breakpoint are
        counted apart.
        """
        num_created = usage.num_stored_tokens if self._cache_ttl else 0
        num_long = (
            num_created if self._cache_ttl == "1h" else min(usage.num_long_ttl_stored_tokens, num_created)
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
            service_tier="standard" if self._has_tier else None,
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
