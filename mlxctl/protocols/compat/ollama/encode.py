"""Ollama's chat, generate and embed routes.

A stream is lines of JSON (NDJSON). It has no comments, so it has no pings.
"""

import time
from array import array
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, assert_never

import msgspec
from msgspec import UNSET

from mlxctl.ir import (
    EmbeddingRequest,
    EmbeddingResult,
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
    ToolCallPart,
    ToolCallStarted,
    Usage,
)
from mlxctl.ir.errors import MlxctlError
from mlxctl.protocols.compat.ollama import parse, schema
from mlxctl.protocols.decoding import decode_body
from mlxctl.protocols.encoder import AnswerStart, ReplyShape
from mlxctl.protocols.error_body import ErrorBody, error_headers, error_message
from mlxctl.protocols.openai.errors import error_status
from mlxctl.protocols.openai.logprobs import token_logprobs

_EMBED = msgspec.json.Decoder(schema.OllamaEmbedRequest)
_OLD_EMBED = msgspec.json.Decoder(schema.OllamaOldEmbedRequest)
_encode = msgspec.json.Encoder().encode


def ollama_error(error: MlxctlError, *, request_id: str | None = None) -> ErrorBody:  # noqa: ARG001 -- only in a header
    """Return the error response: OpenAI's status, and the message alone."""
    return ErrorBody(status=error_status(error), body=_error_json(error), headers=error_headers(error))


def _error_json(error: MlxctlError) -> bytes:
    return _encode(schema.OllamaError(error=error_message(error)))


@dataclass(frozen=True, slots=True, kw_only=True)
class OllamaShape(ReplyShape):
    """The shape of an answer."""

    route: Literal["chat", "generate"]


def encode_loaded(shape: OllamaShape, model: str, is_unloaded: bool) -> bytes:
    """Return the answer to a request that only loads or unloads."""
    return OllamaEncoder(shape).loaded(model, is_unloaded=is_unloaded)


def parse_chat(body: bytes) -> tuple[GenerationRequest, OllamaShape]:
    """Parse a body of /api/chat. Raises InvalidRequest."""
    chat = parse.decode_chat(body)
    shape = OllamaShape(model=chat.model, route="chat", loads_only=not chat.messages)
    return parse.chat_request(chat), shape


def parse_generate(body: bytes) -> tuple[GenerationRequest, OllamaShape]:
    """Parse a body of /api/generate. Raises InvalidRequest."""
    generate = parse.decode_generate(body)
    loads_only = not (generate.prompt or generate.images)
    shape = OllamaShape(model=generate.model, route="generate", loads_only=loads_only)
    return parse.generate_request(generate), shape


class OllamaEncoder:
    """Writes the answer to one chat or generate request.

    Durations are measured from its creation.
    """

    begins_with_usage = False

    def __init__(self, shape: OllamaShape) -> None:
        self._shape = shape
        self._model = shape.model
        self._started_ns = time.perf_counter_ns()
        self._load_ns = 0
        self._first_ns: int | None = None
        self._call: tuple[ToolCallStarted, list[str]] | None = None

    def start(self, start: AnswerStart) -> None:
        """Take the name of the model, which is loaded now."""
        self._model = start.model
        self._load_ns = time.perf_counter_ns() - self._started_ns

    def begin(self, prompt: Usage) -> bytes:  # noqa: ARG002 -- this protocol counts at the end
        """Return nothing: the first line is the first text."""
        return b""

    def on_event(self, event: StreamEvent, number: int = 0) -> bytes:  # noqa: ARG002 -- one answer only
        """Return the line for `event`; a call is sent as a whole."""
        if self._first_ns is None and not isinstance(event, PromptProgress):
            self._first_ns = time.perf_counter_ns()
        match event:
            case TextDelta():
                return (
                    self._line(text=event.text, logprobs=event.logprobs)
                    if event.text or event.logprobs
                    else b""
                )
            case ThinkingDelta():
                return self._line(thinking=event.text) if event.text else b""
            case ToolCallStarted():
                self._call = (event, [])
                return b""
            case ToolArgumentsDelta():
                assert self._call is not None, "a call starts before its arguments"
                self._call[1].append(event.json)
                return b""
            case ToolCallEnded():
                assert self._call is not None, "a call starts before it ends"
                started, pieces = self._call
                call = ToolCallPart(id=started.id, name=started.name, arguments="".join(pieces))
                return self._line(calls=[_call(call, started.index)])
            case PromptProgress() | GeneratedTokens():
                return b""
            case Finished():
                now = time.perf_counter_ns()
                first = self._first_ns or now
                return self._line(
                    done=self._done(event.reason, event.usage, first - self._started_ns, now - first)
                )
            case _:
                assert_never(event)

    def finish(self) -> bytes:
        """Return nothing: the last line has the counts."""
        return b""

    def on_error(self, error: MlxctlError, *, request_id: str | None = None) -> bytes:  # noqa: ARG002 -- not in its shape
        """Return the error as the last line."""
        return _error_json(error) + b"\n"

    def ping(self) -> bytes:
        """Return nothing: NDJSON has no comments."""
        return b""

    def whole(self, *results: TextResult) -> bytes:
        """Return the whole answer."""
        result = results[0]
        return self._line(
            text=result.text,
            thinking=result.thinking,
            calls=[_call(call, index) for index, call in enumerate(result.tool_calls)],
            logprobs=result.logprobs,
            done=self._done(
                result.reason,
                result.usage,
                round(result.prefill_seconds * 1e9),
                round(result.decode_seconds * 1e9),
            ),
        ).rstrip(b"\n")

    def loaded(self, model: str, *, is_unloaded: bool = False) -> bytes:
        """Return the answer to a request that only loads the model.

        Or unloads it.
        """
        self._model = model
        return self._line(done={"done_reason": "unload" if is_unloaded else "load"}).rstrip(b"\n")

    def _done(self, reason: FinishReason, usage: Usage, prefill_ns: int, decode_ns: int) -> dict[str, Any]:
        return {
            "done_reason": "length" if reason == "length" else "stop",
            "total_duration": time.perf_counter_ns() - self._started_ns,
            "load_duration": self._load_ns,
            "prompt_eval_count": usage.num_prompt_tokens,
            "prompt_eval_duration": prefill_ns,
            "eval_count": usage.num_completion_tokens,
            "eval_duration": decode_ns,
        }

    def _line(
        self,
        *,
        text: str = "",
        thinking: str = "",
        calls: list[schema.OllamaCall] | None = None,
        logprobs: tuple[TokenLogprob, ...] = (),
        done: dict[str, Any] | None = None,
    ) -> bytes:
        common: dict[str, Any] = {
            "model": self._model,
            "created_at": _now(),
            "done": done is not None,
            "logprobs": token_logprobs(logprobs) or UNSET,
            **(done or {}),
        }
        answer: schema.OllamaCounts
        if self._shape.route == "chat":
            message = schema.OllamaAnswerMessage(
                role="assistant",
                content=text,
                thinking=thinking or UNSET,
                tool_calls=calls or UNSET,
            )
            answer = schema.OllamaChatAnswer(message=message, **common)
        else:
            answer = schema.OllamaGenerateAnswer(response=text, thinking=thinking or UNSET, **common)
        return _encode(answer) + b"\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class OllamaVectors:
    """The shape of vectors; `is_old` is the route for one text.

    `started_ns` is the beginning of its duration.
    """

    model: str
    is_old: bool
    started_ns: int

    def encode(self, result: EmbeddingResult) -> bytes:
        """Return the body with all vectors."""
        vectors = [array("f", packed).tolist() for packed in result.vectors]
        if self.is_old:
            return _encode(schema.OllamaOldEmbedding(vectors[0]))
        return _encode(
            schema.OllamaEmbeddings(
                model=self.model,
                embeddings=vectors,
                total_duration=time.perf_counter_ns() - self.started_ns,
                # The engine does not measure loading apart from computing.
                load_duration=0,
                prompt_eval_count=result.num_prompt_tokens,
            )
        )


def parse_embed(body: bytes) -> tuple[EmbeddingRequest, OllamaVectors]:
    """Parse a body of /api/embed. Raises InvalidRequest."""
    started_ns = time.perf_counter_ns()
    decoded = decode_body(body, _EMBED)
    request = EmbeddingRequest(
        model=parse.model_name(decoded.model),
        inputs=(decoded.input,) if isinstance(decoded.input, str) else tuple(decoded.input),
        dimensions=decoded.dimensions,
        may_cut=decoded.truncate is not False,
        keep_alive=parse.keep_alive(decoded.keep_alive),
    )
    return request, OllamaVectors(model=decoded.model, is_old=False, started_ns=started_ns)


def parse_old_embed(body: bytes) -> tuple[EmbeddingRequest, OllamaVectors]:
    """Parse a body of /api/embeddings, which has one text. Raises InvalidRequest."""
    started_ns = time.perf_counter_ns()
    old = decode_body(body, _OLD_EMBED)
    request = EmbeddingRequest(
        model=parse.model_name(old.model),
        inputs=(old.prompt,),
        may_cut=True,
        keep_alive=parse.keep_alive(old.keep_alive),
    )
    return request, OllamaVectors(model=old.model, is_old=True, started_ns=started_ns)


def _call(call: ToolCallPart, index: int) -> schema.OllamaCall:
    try:
        arguments = msgspec.json.decode(call.arguments or "{}", type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        # A call that was cut off has no object; the protocol takes nothing else.
        arguments = {"arguments": call.arguments}
    function = schema.OllamaFunction(name=call.name, arguments=arguments, index=index)
    return schema.OllamaCall(id=call.id, function=function)


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")
