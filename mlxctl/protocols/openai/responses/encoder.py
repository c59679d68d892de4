"""OpenAI's Responses API.

Knows no HTTP, no model and no store. A stream is `response.created`, `response.in_progress`, then for each
item its start, parts, deltas and ends, then `response.completed` or `response.incomplete`. Clients read the
ended items, so an error first ends the open text; then comes `response.failed`, after which agents retry.
They ignore an `error` event.
"""

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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
from mlxctl.protocols.encoder import AnswerStart, Reference, ReplyShape, StoredContext
from mlxctl.protocols.openai.responses.answers import OutputItem, ResponseAnswer
from mlxctl.protocols.openai.responses.events import EventWriter
from mlxctl.protocols.openai.responses.output import OutputStyle
from mlxctl.protocols.openai.responses.parsing import (
    decode_responses,
    offered_tools,
    read_input,
    reference,
    to_generation_request,
)
from mlxctl.protocols.openai.responses.resource import ResponseTemplate
from mlxctl.protocols.openai.responses.schema import ResponsesRequest
from mlxctl.protocols.openai.responses.tools import OfferedTools

MAX_REPEATED_BYTES = 4 << 20
"""How much of a request its response may repeat: it is written several times, on the event loop."""

_DONE = b"data: [DONE]\n\n"
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseShape(ReplyShape):
    """The shape of a response.

    `asked` is the request without its input, which the response repeats; `sampling` are its parameters as far
    as it sets them. `own_items` are those of its input, to be stored.
    """

    response_id: str
    asked: ResponsesRequest
    style: OutputStyle
    sampling: SamplingParams
    own_items: tuple[StoredItem, ...] = ()

    @property
    def stores(self) -> bool:
        """Whether the response may be stored."""
        return self.asked.store is not False


def parse_response(
    body: bytes, *, needs_input: bool = True, response_id: str | None = None
) -> tuple[GenerationRequest | Reference, ResponseShape]:
    """Parse a body, or return its references to stored data. Raises InvalidRequest.

    Without `needs_input`, previous_response_id suffices. `response_id` is generated if not given.
    """
    decoded = decode_responses(body, needs_input=needs_input)
    if (refers := reference(decoded)) is not None:
        # PERF: the shape of the whole request follows.
        outline = msgspec.structs.replace(decoded, instructions=None, tools=None)
        return refers, _shape(outline, OfferedTools([]), response_id or _new_id())
    return _parsed(decoded, StoredContext(), num_bytes=len(body), response_id=response_id)


def parse_response_with(
    body: bytes, stored: StoredContext, *, needs_input: bool = True
) -> tuple[GenerationRequest, ResponseShape]:
    """Parse a body with its stored context. Raises InvalidRequest."""
    return _parsed(decode_responses(body, needs_input=needs_input), stored, num_bytes=len(body))


def _parsed(
    decoded: ResponsesRequest, stored: StoredContext, *, num_bytes: int, response_id: str | None = None
) -> tuple[GenerationRequest, ResponseShape]:
    response_id = response_id or _new_id()
    offer = OfferedTools(offered_tools(decoded))
    read = read_input(decoded, stored, fallback_id=response_id.removeprefix("resp_"))
    request = to_generation_request(decoded, read.messages, offer)
    shape = replace(
        _shape(decoded, offer, response_id),
        dropped_tools=(*offer.dropped, *read.dropped),
        sampling=_requested_sampling(request),
        own_items=read.own_items,
    )
    # PERF: a small body repeats nothing large.
    if num_bytes > MAX_REPEATED_BYTES and len(_encode(_template(shape).in_progress())) > MAX_REPEATED_BYTES:
        raise InvalidRequest(
            "what a response repeats (instructions, tools, names) may have "
            f"{MAX_REPEATED_BYTES} bytes together; send less",
            param="instructions" if decoded.instructions else "tools",
        )
    return request, shape


def _new_id() -> str:
    return f"resp_{secrets.token_hex(24)}"


def _shape(decoded: ResponsesRequest, offer: OfferedTools, response_id: str) -> ResponseShape:
    style = OutputStyle(
        offer=offer,
        item_suffix=response_id.removeprefix("resp_"),
        writes_summary=bool(
            decoded.reasoning and (decoded.reasoning.summary or decoded.reasoning.generate_summary)
        ),
        encrypts_thinking="reasoning.encrypted_content" in (decoded.include or ()),
    )
    return ResponseShape(
        model=decoded.model,
        response_id=response_id,
        # PERF: nothing needs the input again, and a shape goes from process to process.
        asked=msgspec.structs.replace(decoded, input=None),
        style=style,
        sampling=SamplingParams(),
    )


def _template(
    shape: ResponseShape,
    *,
    created: int = 0,
    model: str | None = None,
    sampling: SamplingParams | None = None,
) -> ResponseTemplate:
    asked = shape.asked if model is None else msgspec.structs.replace(shape.asked, model=model)
    return ResponseTemplate(
        id=shape.response_id,
        created=created,
        request=asked,
        offer=shape.style.offer,
        sampling=sampling or shape.sampling,
    )


class ResponseEncoder:
    """Writes one response; `now` is the clock, in unix seconds.

    After the end, `record` is the response to store.
    """

    begins_with_usage = False

    def __init__(self, shape: ResponseShape, *, now: Callable[[], float] = time.time) -> None:
        self.shape = shape
        self._now = now
        self._created = int(now())
        self._template = _template(shape, created=self._created)
        self._events = EventWriter(shape.style)
        self._has_begun = False
        self._finished: tuple[ResponseAnswer, Sequence[OutputItem]] | None = None

    def start(self, start: AnswerStart) -> None:
        """Take the model and the final sampling parameters, which the response repeats."""
        self._template = _template(
            self.shape, created=self._created, model=start.model, sampling=start.sampling
        )

    @property
    def record(self) -> StoredResponse | None:
        """The response to store, None before the end."""
        if self._finished is None:
            return None
        response, output = self._finished
        return StoredResponse(
            id=self.shape.response_id,
            previous_id=self.shape.asked.previous_response_id,
            body=_encode(response),
            input=self.shape.own_items,
            output=tuple(StoredItem(id=item.id, body=_encode(item)) for item in output),
        )

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
        output = self.shape.style.items(result)
        response = self._template.finished(
            self._reason(result.reason), output, result.usage, int(self._now())
        )
        self._finished = response, output
        return _encode(response)

    def _end(self, end: Finished) -> bytes:
        reason = self._reason(end.reason)
        closed = self._events.close("incomplete" if reason in ("length", "refusal") else "completed")
        response = self._template.finished(reason, self._events.output, end.usage, int(self._now()))
        self._finished = response, self._events.output
        kind: Literal["response.incomplete", "response.completed"] = (
            "response.incomplete" if reason in ("length", "refusal") else "response.completed"
        )
        return closed + self._events.response(kind, response)

    def _reason(self, reason: FinishReason) -> FinishReason:
        """Return why the answer ended.

        One that was not to be generated is complete.
        """
        return "stop" if self.shape.asked.generate is False and reason == "length" else reason


def _requested_sampling(request: GenerationRequest) -> SamplingParams:
    """Return the sampling parameters as far as the request sets them."""
    options = request.sampling
    return SamplingParams(
        temperature=1.0 if options.temperature is None else options.temperature,
        top_p=1.0 if options.top_p is None else options.top_p,
        presence_penalty=options.presence_penalty or 0.0,
        frequency_penalty=options.frequency_penalty or 0.0,
    )
