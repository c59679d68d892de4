"""OpenAI chat completions: the formatter. Knows no HTTP and no model.

How a stream ends when generation fails was decided by what real clients do with each ending: a missing end
without an error makes one agent repeat its request twelve times a second; a finish_reason of "stop" would let
every client take the partial answer for the whole; an error object makes the SDKs raise and agents stop or
retry with back-off. So a failed stream says the error object, then `[DONE]`, and never a finish_reason that
is not true.
"""

import secrets
import time
from typing import assert_never

import msgspec

from mlxctl.errors import MlxctlError
from mlxctl.ir import (
    Finished,
    FinishReason,
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
from mlxctl.protocols.openai.chat_calls import ChatCalls
from mlxctl.protocols.openai.chat_parsing import decode_chat, to_generation_request
from mlxctl.protocols.openai.chat_schema import ChatRequest
from mlxctl.protocols.openai.chat_tools import dropped_tool_types, freeform_names
from mlxctl.protocols.openai.errors import error_json
from mlxctl.protocols.openai.logprobs import logprobs_object
from mlxctl.protocols.openai.usage import total_usage, usage_object

_FINISH_REASONS: dict[FinishReason, str] = {
    "stop": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
}
_DONE = b"data: [DONE]\n\n"
_NULL = b"null"
_encode = msgspec.json.Encoder().encode


class OpenAIChatFormatter:
    """One chat completion.

    `system_fingerprint` names the serving configuration, `response_id` and `created` (unix seconds) are made
    up when not given.

    PERF: everything of a chunk but the delta is encoded once, in `parse`; a text delta costs one JSON string
    and one join.
    """

    begins_with_counts = False

    def __init__(
        self,
        *,
        system_fingerprint: str | None = None,
        response_id: str | None = None,
        created: int | None = None,
    ) -> None:
        self.dropped_tools: tuple[str, ...] = ()
        self._system_fingerprint = system_fingerprint
        self._id = response_id or f"chatcmpl-{secrets.token_hex(16)}"
        self._created = int(time.time()) if created is None else created
        self._usages: dict[int, Usage] = {}

    def parse(self, body: bytes) -> GenerationRequest:
        """Read a request body. Raises InvalidRequest."""
        chat = decode_chat(body)
        request = to_generation_request(chat)
        self.adopt(chat, request)
        return request

    def adopt(self, chat: ChatRequest, request: GenerationRequest) -> None:
        """Take what a decoded body says about the shape of the answer."""
        self.dropped_tools = dropped_tool_types(chat)
        self._model = chat.model
        self._include_usage = bool(chat.stream_options and chat.stream_options.include_usage)
        self._num_choices = request.num_choices
        self._calls = [ChatCalls(freeform_names(chat)) for _ in range(self._num_choices)]
        self._freeze_chunks()

    def begin(self, prompt: Usage) -> bytes:  # noqa: ARG002 -- this protocol counts at the end
        """Return the chunk that says who speaks, one for each choice."""
        return b"".join(
            self._chunk(number, b'{"role":"assistant","content":""}') for number in range(self._num_choices)
        )

    def on_event(self, event: StreamEvent, number: int = 0) -> bytes:
        """Return the chunk for `event` of choice `number`; progress is a comment."""
        match event:
            case TextDelta():
                return self._text(number, event)
            case ThinkingDelta():
                return (
                    self._chunk(number, b'{"reasoning_content":' + _encode(event.text) + b"}")
                    if event.text
                    else b""
                )
            case ToolCallStarted() | ToolArgumentsDelta() | ToolCallEnded():
                delta = self._calls[number].delta(event)
                return self._chunk(number, b'{"tool_calls":[' + delta + b"]}") if delta else b""
            case PromptProgress():
                return b": prefill %d/%d\n\n" % (event.num_processed, event.num_prompt_tokens)
            case Finished():
                self._usages[number] = event.usage
                return self._chunk(number, b"{}", finish_reason=_encode(_FINISH_REASONS[event.reason]))
            case _:
                assert_never(event)

    def finish(self) -> bytes:
        """Return the usage, when it was asked for, and the end mark."""
        if not self._include_usage:
            return _DONE
        usages = [self._usages[number] for number in range(self._num_choices)]
        total = usage_object(total_usage(usages, num_choices=self._num_choices))
        usage = self._envelope("chat.completion.chunk") | {"choices": [], "usage": total}
        return b"data: " + _encode(usage) + b"\n\n" + _DONE

    def on_error(self, error: MlxctlError) -> bytes:
        """Return the error object and the end mark, without a finish_reason."""
        return b"data: " + error_json(error) + b"\n\n" + _DONE

    def ping(self) -> bytes:
        """Return a comment."""
        return b": ping\n\n"

    def whole(self, *results: TextResult) -> bytes:
        """Return the chat.completion object."""
        choices = [
            {
                "index": number,
                "message": self._message(number, result),
                "logprobs": logprobs_object(result.logprobs) if result.logprobs else None,
                "finish_reason": _FINISH_REASONS[result.reason],
            }
            for number, result in enumerate(results)
        ]
        usage = total_usage([result.usage for result in results], num_choices=self._num_choices)
        return _encode(self._envelope("chat.completion") | {"choices": choices, "usage": usage_object(usage)})

    def _message(self, number: int, result: TextResult) -> dict[str, object]:
        message: dict[str, object] = {
            "role": "assistant",
            "content": result.text or (None if result.tool_calls else ""),
            "refusal": None,
            "annotations": [],
        }
        if result.thinking:
            message["reasoning_content"] = result.thinking
        if result.tool_calls:
            message["tool_calls"] = [self._calls[number].whole(call) for call in result.tool_calls]
        return message

    def _envelope(self, kind: str) -> dict[str, object]:
        return {
            "id": self._id,
            "object": kind,
            "created": self._created,
            "model": self._model,
            "system_fingerprint": self._system_fingerprint,
        }

    def _freeze_chunks(self) -> None:
        envelope = _encode(self._envelope("chat.completion.chunk"))[:-1]
        self._heads = [
            b"data: " + envelope + b',"choices":[{"index":%d,"delta":' % number
            for number in range(self._num_choices)
        ]
        # Whoever asks for usage finds the key in every chunk, null until the last.
        self._tail = b',"usage":null}\n\n' if self._include_usage else b"}\n\n"
        self._text_heads = [head + b'{"content":' for head in self._heads]
        self._text_tail = b'},"logprobs":null,"finish_reason":null}]' + self._tail

    def _text(self, number: int, event: TextDelta) -> bytes:
        if event.logprobs:
            return self._chunk(number, b'{"content":' + _encode(event.text) + b"}", logprobs=event.logprobs)
        return self._text_heads[number] + _encode(event.text) + self._text_tail if event.text else b""

    def _chunk(
        self,
        number: int,
        delta: bytes,
        *,
        logprobs: tuple[TokenLogprob, ...] = (),
        finish_reason: bytes = _NULL,
    ) -> bytes:
        scores = _encode(logprobs_object(logprobs)) if logprobs else _NULL
        ending = b',"logprobs":' + scores + b',"finish_reason":' + finish_reason + b"}]"
        return self._heads[number] + delta + ending + self._tail
