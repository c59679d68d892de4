"""OpenAI chat completions.

A failed stream ends with the error object and `[DONE]`, without a finish_reason. Measured with real clients:
without any end, one agent repeats its request twelve times a second; with finish_reason "stop", clients take
the partial answer for a whole one; after an error object the SDKs raise, and agents stop or retry with
back-off.
"""

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self, assert_never

import msgspec
from msgspec import UNSET, UnsetType

from mlxctl.ir import (
    Finished,
    FinishReason,
    GeneratedTokens,
    GenerationRequest,
    PromptProgress,
    StreamEvent,
    TextDelta,
    TextResult,
    ThinkingDelta,
    TokenLogprob,
    ToolArgumentsDelta,
    ToolCallEnded,
    ToolCallStarted,
    Usage,
)
from mlxctl.ir.errors import MlxctlError
from mlxctl.protocols.encoder import AnswerStart, ReplyShape
from mlxctl.protocols.openai.chat_answers import (
    ChatAnswerMessage,
    ChatChoice,
    ChatChunk,
    ChatChunkChoice,
    ChatCompletion,
    ChatDelta,
    ChatFinishReason,
    ChatLogprobs,
    PromptLogprobs,
)
from mlxctl.protocols.openai.chat_calls import ChatCalls
from mlxctl.protocols.openai.chat_parsing import decode_chat, to_generation_request
from mlxctl.protocols.openai.chat_schema import (
    ChatAssistantMessage,
    ChatRequest,
    ChatTextPart,
)
from mlxctl.protocols.openai.chat_tools import dropped_tool_types, freeform_names
from mlxctl.protocols.openai.completion_fields import counts_every_chunk
from mlxctl.protocols.openai.errors import error_json
from mlxctl.protocols.openai.logprobs import chat_logprobs, prompt_logprobs
from mlxctl.protocols.openai.token_reports import TokenReport
from mlxctl.protocols.openai.usage import CompletionUsage, completion_usage
from mlxctl.protocols.priority import ServedTier, served_tier
from mlxctl.protocols.timings import PrefillProgress, Stopwatch, Timings, timings

_FINISH_REASONS: dict[FinishReason, ChatFinishReason] = {
    "stop": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "refusal": "content_filter",
}
_DONE = b"data: [DONE]\n\n"
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatShape(ReplyShape):
    """The shape of a chat completion.

    `echo` precedes the answer. `freeform` are the names of custom tools, which take free text.
    """

    num_choices: int
    service_tier: ServedTier | UnsetType
    includes_usage: bool
    num_top_logprobs: int | None
    num_top_prompt_logprobs: int | None
    writes_ids: bool
    hides_thinking: bool
    echo: str
    reports_tokens: bool
    has_token_ids: bool
    counts_chunks: bool
    has_timings: bool
    has_progress: bool
    freeform: frozenset[str]

    @classmethod
    def of(cls, chat: ChatRequest, request: GenerationRequest, **more: Any) -> Self:
        """Return the shape that a body asks for.

        `more` are the fields of a dialect.
        """
        return cls(
            model=chat.model,
            dropped_tools=dropped_tool_types(chat),
            num_choices=request.num_choices,
            service_tier=UNSET
            if chat.service_tier is None
            else served_tier(chat.priority, chat.service_tier),
            includes_usage=bool(chat.stream_options and chat.stream_options.include_usage),
            num_top_logprobs=(chat.top_logprobs or 0) if chat.logprobs else None,
            num_top_prompt_logprobs=chat.prompt_logprobs,
            writes_ids=bool(chat.return_tokens_as_token_ids),
            hides_thinking=chat.include_reasoning is False or bool(chat.reasoning and chat.reasoning.exclude),
            echo=_echo(chat) if request.continues_answer else "",
            reports_tokens=request.reports_tokens,
            has_token_ids=bool(chat.return_token_ids),
            counts_chunks=counts_every_chunk(chat.stream_options),
            has_timings=bool(chat.timings_per_token),
            has_progress=bool(chat.return_progress),
            freeform=freeform_names(chat),
            **more,
        )


def parse_chat(body: bytes) -> tuple[GenerationRequest, ChatShape]:
    """Parse a body of a chat completion. Raises InvalidRequest."""
    chat = decode_chat(body)
    request = to_generation_request(chat)
    return request, ChatShape.of(chat, request)


class ChatEncoder:
    """Writes one chat completion.

    `system_fingerprint` names the server's configuration; `response_id` and `created` (unix seconds) are
    generated if not given. PERF: chunks of text and thinking are encoded once, in `start`; a delta costs one
    JSON string and one join.
    """

    begins_with_usage = False

    def __init__(
        self,
        shape: ChatShape,
        *,
        system_fingerprint: str | None = None,
        response_id: str | None = None,
        created: int | None = None,
    ) -> None:
        self._shape = shape
        self._model = shape.model
        self._system_fingerprint = system_fingerprint
        self._id = response_id or f"chatcmpl-{secrets.token_hex(16)}"
        self._created = int(time.time()) if created is None else created
        self._usages: dict[int, Usage] = {}
        self._stopwatch = Stopwatch()
        self._reports = [TokenReport(has_ids=shape.has_token_ids) for _ in range(shape.num_choices)]
        self._calls = [ChatCalls(shape.freeform) for _ in range(shape.num_choices)]
        self._text_frames: list[tuple[bytes, bytes]] = []
        self._thinking_frames: list[tuple[bytes, bytes]] = []

    def start(self, start: AnswerStart) -> None:
        """Take the name of the model, which every chunk has."""
        self._model = start.model
        numbers = range(self._shape.num_choices)
        self._text_frames = [self._frame(number, ChatDelta(content=""), b'"content":') for number in numbers]
        self._thinking_frames = [
            self._frame(number, ChatDelta(reasoning_content=""), b'"reasoning_content":')
            for number in numbers
        ]

    def begin(self, prompt: Usage) -> bytes:
        """Return the first chunk of each choice: role and echo.

        With token ids, the first chunk has those of the prompt, so it comes with the first tokens.
        """
        for report in self._reports:
            report.usage = prompt
        return (
            b""
            if self._shape.has_token_ids
            else b"".join(map(self._first_chunk, range(self._shape.num_choices)))
        )

    def _first_chunk(self, number: int) -> bytes:
        return self._chunk(number, ChatDelta(role="assistant", content=self._shape.echo))

    def on_event(self, event: StreamEvent, number: int = 0) -> bytes:
        """Return the chunk for `event` of choice `number`; progress is a comment."""
        match event:
            case GeneratedTokens():
                return self._generated(number, event)
            case TextDelta():
                return self._text(number, event)
            case ThinkingDelta():
                if not event.text or self._shape.hides_thinking:
                    return b""
                if self._shape.reports_tokens:
                    return self._chunk(number, ChatDelta(reasoning_content=event.text))
                head, tail = self._thinking_frames[number]
                return head + _encode(event.text) + tail
            case ToolCallStarted() | ToolArgumentsDelta() | ToolCallEnded():
                delta = self._calls[number].delta(event)
                return self._chunk(number, ChatDelta(tool_calls=[delta])) if delta else b""
            case PromptProgress() if self._shape.has_progress:
                return self._chunk(number, ChatDelta(), progress=self._stopwatch.progress(event))
            case PromptProgress():
                return b": prefill %d/%d\n\n" % (event.num_processed, event.num_prompt_tokens)
            case Finished():
                self._usages[number] = self._reports[number].usage = event.usage
                return self._chunk(number, ChatDelta(), finish_reason=_FINISH_REASONS[event.reason])
            case _:
                assert_never(event)

    def finish(self) -> bytes:
        """Return the usage, if requested, and the end mark."""
        if not self._shape.includes_usage:
            return _DONE
        usages = [self._usages[number] for number in range(self._shape.num_choices)]
        usage = completion_usage(usages, num_choices=self._shape.num_choices)
        chunk = self._chunk_object([], usage)
        if self._shape.has_timings:
            chunk.timings = self._stopwatch.timings(0, self._usages[0])
        return _event(chunk) + _DONE

    def on_error(self, error: MlxctlError, *, request_id: str | None = None) -> bytes:  # noqa: ARG002 -- not in its shape
        """Return the error object and the end mark, without a finish_reason."""
        return b"data: " + error_json(error) + b"\n\n" + _DONE

    def ping(self) -> bytes:
        """Return a comment, which clients ignore."""
        return b": ping\n\n"

    def whole(self, *results: TextResult) -> bytes:
        """Return the chat.completion object."""
        return _encode(
            ChatCompletion(
                id=self._id,
                object="chat.completion",
                created=self._created,
                model=self._model,
                system_fingerprint=self._system_fingerprint,
                choices=[
                    ChatChoice(
                        index=number,
                        message=self._message(number, result),
                        logprobs=self._logprobs(result.logprobs[self._num_scored(result) :]),
                        finish_reason=_FINISH_REASONS[result.reason],
                        token_ids=self._reports[number].whole_ids(result),
                    )
                    for number, result in enumerate(results)
                ],
                usage=completion_usage(
                    [result.usage for result in results], num_choices=self._shape.num_choices
                ),
                service_tier=self._shape.service_tier,
                prompt_logprobs=self._prompt_logprobs(results[0]),
                prompt_token_ids=self._reports[0].whole_prompt_ids(results[0]),
                timings=self._timings(results[0]),
            )
        )

    def _message(self, number: int, result: TextResult) -> ChatAnswerMessage:
        calls = [self._calls[number].whole(call) for call in result.tool_calls]
        return ChatAnswerMessage(
            role="assistant",
            content=self._shape.echo + result.text or (None if calls else ""),
            refusal=None,
            annotations=[],
            reasoning_content=UNSET if self._shape.hides_thinking else result.thinking or UNSET,
            tool_calls=calls or UNSET,
        )

    def _logprobs(self, logprobs: Sequence[TokenLogprob]) -> ChatLogprobs | None:
        if self._shape.num_top_logprobs is None:
            return None
        return chat_logprobs(logprobs, num_top=self._shape.num_top_logprobs, as_ids=self._shape.writes_ids)

    def _prompt_logprobs(self, result: TextResult) -> PromptLogprobs | UnsetType:
        if self._shape.num_top_prompt_logprobs is None:
            return UNSET
        return prompt_logprobs(
            result.logprobs[: self._num_scored(result)], self._shape.num_top_prompt_logprobs
        )

    def _num_scored(self, result: TextResult) -> int:
        """Return how many of an answer's first log-probabilities are its prompt's."""
        return 0 if self._shape.num_top_prompt_logprobs is None else result.usage.num_prompt_tokens

    def _generated(self, number: int, event: GeneratedTokens) -> bytes:
        """Take the next tokens; return the first chunk if it waited."""
        is_first = self._stopwatch.first(number)
        report, opening = self._reports[number], b""
        if self._shape.has_token_ids and event.prompt_token_ids:
            report.add_prompt(event.prompt_token_ids)
            opening = self._first_chunk(number)
        if is_first and self._shape.has_progress:
            opening += self._chunk(number, ChatDelta(), progress=self._stopwatch.prefilled(event.usage))
        report.add(event)
        return opening

    def _frame(self, number: int, empty: ChatDelta, field: bytes) -> tuple[bytes, bytes]:
        """Return the bytes of a chunk around its delta's text."""
        # Inside a JSON string the quotes would be escaped, so the pattern occurs once.
        head, tail = self._chunk(number, empty).split(field + b'""')
        return head + field, tail

    def _text(self, number: int, event: TextDelta) -> bytes:
        if event.logprobs or (self._shape.reports_tokens and event.text):
            return self._chunk(number, ChatDelta(content=event.text), logprobs=event.logprobs)
        head, tail = self._text_frames[number]
        return head + _encode(event.text) + tail if event.text else b""

    def _chunk(
        self,
        number: int,
        delta: ChatDelta,
        *,
        logprobs: tuple[TokenLogprob, ...] = (),
        finish_reason: ChatFinishReason | None = None,
        progress: PrefillProgress | UnsetType = UNSET,
    ) -> bytes:
        report = self._reports[number]
        choice = ChatChunkChoice(
            index=number,
            delta=delta,
            logprobs=self._logprobs(logprobs),
            finish_reason=finish_reason,
            token_ids=report.take_ids(),
        )
        # With include_usage every chunk has the key.
        usage: CompletionUsage | UnsetType | None = None if self._shape.includes_usage else UNSET
        # Another server counts at the end.
        if self._shape.counts_chunks and report.usage.num_prompt_tokens:
            usage = completion_usage([report.usage], num_choices=1)
        chunk = self._chunk_object([choice], usage)
        chunk.prompt_progress = progress
        chunk.prompt_token_ids = report.take_prompt_ids()
        if self._shape.has_timings and report.usage.num_completion_tokens:
            chunk.timings = self._stopwatch.timings(number, report.usage)
        return _event(chunk)

    def _timings(self, result: TextResult) -> Timings | UnsetType:
        if not self._shape.has_timings:
            return UNSET
        return timings(
            result.usage, prefill_seconds=result.prefill_seconds, decode_seconds=result.decode_seconds
        )

    def _chunk_object(
        self, choices: list[ChatChunkChoice], usage: CompletionUsage | UnsetType | None
    ) -> ChatChunk:
        return ChatChunk(
            id=self._id,
            object="chat.completion.chunk",
            created=self._created,
            model=self._model,
            system_fingerprint=self._system_fingerprint,
            choices=choices,
            usage=usage,
            service_tier=self._shape.service_tier,
        )


def _echo(chat: ChatRequest) -> str:
    """Return the text of the message that the answer repeats."""
    last = chat.messages[-1] if chat.echo and chat.messages else None
    if not isinstance(last, ChatAssistantMessage):
        return ""
    if isinstance(last.content, str):
        return last.content
    return "".join(part.text for part in last.content or () if isinstance(part, ChatTextPart))


def _event(chunk: ChatChunk) -> bytes:
    return b"data: " + _encode(chunk) + b"\n\n"
