"""Formatter of OpenAI's Responses API.

Knows no HTTP, no model and no store. A stream is `response.created`, `response.in_progress`, then for each
item its start, parts, deltas and ends, then `response.completed` or `response.incomplete`. Clients read the
ended items, so an error first ends the open text; then comes `response.failed`, after which agents retry.
They ignore an `error` event.
"""

import secrets
import time
from collections.abc import Callable
from typing import Literal, assert_never

import msgspec

from mlxctl.ir import (
    Finished,
    FinishReason,
    GeneratedTokens,
    GenerationRequest,
    PromptProgress,
    SamplingParams,
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
from mlxctl.ir.errors import InvalidRequest, MlxctlError
from mlxctl.protocols.openai.responses.answers import OutputItem, ResponseAnswer
from mlxctl.protocols.openai.responses.events import EventWriter
from mlxctl.protocols.openai.responses.output import OutputStyle
from mlxctl.protocols.openai.responses.parsing import (
    References,
    StoredContext,
    decode_responses,
    offered_tools,
    read_input,
    references,
    to_generation_request,
)
from mlxctl.protocols.openai.responses.resource import ResponseTemplate
from mlxctl.protocols.openai.responses.tools import OfferedTools

MAX_REPEATED_BYTES = 4 << 20
"""How much of a request its response may repeat: it is written several times, on the event loop."""

_DONE = b"data: [DONE]\n\n"
_encode = msgspec.json.Encoder().encode


class OpenAIResponsesFormatter:
    """Formatter of one response.

    `response_id` is generated if not given; `now` is the clock, in unix seconds. `read` returns the
    references to stored data, `translate` takes what was found; `parse` is both, with nothing found.
    `parse_or_refer` and `parse_again` keep nothing of a body that is not needed later. `set_sampling` sets
    the final sampling parameters. After the end, `record` is the response to store, and `earlier` the
    conversation that it continues. With `records_unstored` there is a record also of a response that must not
    be stored.
    """

    begins_with_usage = False
    needs_input = True

    def __init__(self, *, response_id: str | None = None, now: Callable[[], float] = time.time) -> None:
        self.dropped_tools: tuple[str, ...] = ()
        self.record: StoredResponse | None = None
        self.records_unstored = False
        self.earlier: tuple[StoredItem, ...] = ()
        self._id = response_id or f"resp_{secrets.token_hex(24)}"
        self._now = now
        self._has_begun = False

    @property
    def stores(self) -> bool:
        """Whether the response may be stored."""
        return self._request.store is not False

    def parse(self, body: bytes) -> GenerationRequest:
        """Parse a request without references. Raises InvalidRequest."""
        self.read(body)
        return self.translate(StoredContext())

    def parse_or_refer(self, body: bytes) -> GenerationRequest | References:
        """Parse a request, or return its references.

        With references nothing is kept. Raises InvalidRequest.
        """
        wanted = self.read(body)
        if wanted == References():
            return self._translate_whole(body, StoredContext())
        del self._request
        return wanted

    def parse_again(self, body: bytes, context: StoredContext) -> GenerationRequest:
        """Parse a request with its stored context.

        The context is not kept. Raises InvalidRequest.
        """
        self.read(body)
        request = self._translate_whole(body, context)
        self.earlier = ()
        return request

    def read(self, body: bytes) -> References:
        """Decode a body and return its references. Raises InvalidRequest."""
        self._request = decode_responses(body, needs_input=self.needs_input)
        return references(self._request)

    def translate(self, context: StoredContext) -> GenerationRequest:
        """Return the request with its stored context. Raises InvalidRequest."""
        decoded, suffix = self._request, self._id.removeprefix("resp_")
        offer = OfferedTools(offered_tools(decoded))
        self.earlier = context.conversation or ()
        read = read_input(decoded, context, fallback_id=suffix)
        request = to_generation_request(decoded, read.messages, offer)
        self.dropped_tools = (*offer.dropped, *read.dropped)
        self._own_items = read.own_items
        # PERF: nothing needs the input again, and what is kept here goes from process to process.
        self._request = msgspec.structs.replace(decoded, input=None)
        style = OutputStyle(
            offer=offer,
            item_suffix=suffix,
            writes_summary=bool(
                decoded.reasoning and (decoded.reasoning.summary or decoded.reasoning.generate_summary)
            ),
            encrypts_thinking="reasoning.encrypted_content" in (decoded.include or ()),
        )
        self._style, self._events = style, EventWriter(style)
        self._offer, self._created = offer, int(self._now())
        self.set_sampling(_requested_sampling(request))
        return request

    def _translate_whole(self, body: bytes, context: StoredContext) -> GenerationRequest:
        request = self.translate(context)
        # PERF: a small body repeats nothing large.
        if len(body) > MAX_REPEATED_BYTES and len(_encode(self._template.in_progress())) > MAX_REPEATED_BYTES:
            message = (
                "what a response repeats (instructions, tools, names) may have "
                f"{MAX_REPEATED_BYTES} bytes together; send less"
            )
            raise InvalidRequest(message, param="instructions" if self._request.instructions else "tools")
        return request

    def set_sampling(self, sampling: SamplingParams) -> None:
        """Set the final sampling parameters, which the response repeats."""
        self._template = ResponseTemplate(
            id=self._id, created=self._created, request=self._request, offer=self._offer, sampling=sampling
        )

    def set_model(self, name: str) -> None:
        """Set the name of the model in the response."""
        self._request = msgspec.structs.replace(self._request, model=name)
        self.set_sampling(self._template.sampling)

    def begin(self, prompt: Usage) -> bytes:  # noqa: ARG002 -- this protocol counts at the end
        """Return `response.created` and `response.in_progress`."""
        self._has_begun = True
        response = self._template.in_progress()
        return self._events.response("response.created", response) + self._events.response(
            "response.in_progress", response
        )

    def on_event(self, event: StreamEvent, number: int = 0) -> bytes:  # noqa: ARG002 -- this protocol has one answer
        """Return the events for `event`; progress is a comment."""
        match event:
            case TextDelta():
                return self._events.text(event)
            case ThinkingDelta():
                return self._events.thinking(event.text)
            case ToolArgumentsDelta():
                return self._events.arguments(event.json)
            case ToolCallStarted():
                return self._events.start_call(event)
            case ToolCallEnded():
                return self._events.end_call()
            case GeneratedTokens():
                return b""
            case PromptProgress():
                return b": prefill %d/%d\n\n" % (event.num_processed, event.num_prompt_tokens)
            case Finished():
                return self._end(event)
            case _:
                assert_never(event)

    def finish(self) -> bytes:
        """Return the end mark."""
        return _DONE

    def on_error(self, error: MlxctlError, *, request_id: str | None = None) -> bytes:  # noqa: ARG002 -- not in its shape
        """Return the events that end a failed stream.

        End of the open text, the failed response, and the end mark.
        """
        begun = b"" if self._has_begun else self.begin(Usage(num_prompt_tokens=0))
        closed = self._events.close("incomplete")
        response = self._template.failed(error, self._events.output)
        return begun + closed + self._events.response("response.failed", response) + _DONE

    def ping(self) -> bytes:
        """Return a comment, which clients ignore."""
        return b": ping\n\n"

    def whole(self, *results: TextResult) -> bytes:
        """Return the response object."""
        (result,) = results
        output = self._style.items(result)
        response = self._template.finished(
            self._reason(result.reason), output, result.usage, int(self._now())
        )
        self._keep(response, output)
        return _encode(response)

    def _end(self, end: Finished) -> bytes:
        reason = self._reason(end.reason)
        closed = self._events.close("incomplete" if reason in ("length", "refusal") else "completed")
        response = self._template.finished(reason, self._events.output, end.usage, int(self._now()))
        self._keep(response, self._events.output)
        kind: Literal["response.incomplete", "response.completed"] = (
            "response.incomplete" if reason in ("length", "refusal") else "response.completed"
        )
        return closed + self._events.response(kind, response)

    def _reason(self, reason: FinishReason) -> FinishReason:
        """Return why the answer ended.

        One that was not to be generated is complete.
        """
        return "stop" if self._request.generate is False and reason == "length" else reason

    def _keep(self, response: ResponseAnswer, output: list[OutputItem]) -> None:
        if not self.stores and not self.records_unstored:
            return
        self.record = StoredResponse(
            id=self._id,
            previous_id=self._request.previous_response_id,
            body=_encode(response),
            input=self._own_items,
            output=tuple(StoredItem(id=item.id, body=_encode(item)) for item in output),
        )


def _requested_sampling(request: GenerationRequest) -> SamplingParams:
    """Return the sampling parameters as far as the request sets them."""
    options = request.sampling
    return SamplingParams(
        temperature=1.0 if options.temperature is None else options.temperature,
        top_p=1.0 if options.top_p is None else options.top_p,
        presence_penalty=options.presence_penalty or 0.0,
        frequency_penalty=options.frequency_penalty or 0.0,
    )
