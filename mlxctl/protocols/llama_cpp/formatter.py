"""Formatter of llama.cpp's `/completion` and `/infill`.

A stream is server-sent events without an end mark: the last one has `stop` true.
"""

import time
from typing import Any, Literal

import msgspec
from msgspec import UNSET

from mlxctl.errors import InvalidRequest, MlxctlError
from mlxctl.ir import (
    Finished,
    FinishReason,
    GenerationRequest,
    PromptProgress,
    StreamEvent,
    TextDelta,
    TextResult,
    Usage,
)
from mlxctl.protocols.adapter_fields import adapter_choices
from mlxctl.protocols.decoding import decode_body
from mlxctl.protocols.llama_cpp import schema
from mlxctl.protocols.llama_cpp.errors import llama_error
from mlxctl.protocols.openai.text_inputs import read_texts
from mlxctl.protocols.sampling_fields import sampling_options
from mlxctl.protocols.structured_output import requested_constraint, schema_constraint

_COMPLETION = msgspec.json.Decoder(schema.LlamaCompletionRequest)
_INFILL = msgspec.json.Decoder(schema.LlamaInfillRequest)
_STOP_TYPES: dict[FinishReason, Literal["eos", "limit", "word"]] = {
    "stop": "eos",
    "stop_sequence": "word",
    "length": "limit",
    "tool_calls": "eos",
    "refusal": "eos",
}
_encode = msgspec.json.Encoder().encode


class LlamaFormatter:
    """Formatter of one request; a stream's times are measured from its creation."""

    dropped_tools: tuple[str, ...] = ()
    begins_with_usage = False

    def __init__(self, *, route: Literal["completion", "infill"]) -> None:
        self._route = route
        self._started = time.perf_counter()
        self._first: float | None = None

    def parse(self, body: bytes) -> GenerationRequest:
        """Parse a body. Raises InvalidRequest."""
        if self._route == "infill":
            infill = decode_body(body, _INFILL)
            extra = "".join(f"{file.filename or 'file'}\n{file.text}\n" for file in infill.input_extra or ())
            prompt = f"{extra}{infill.input_prefix}{infill.prompt or ''}"
            return self._request(
                infill, prompts=(prompt,), suffix=infill.input_suffix, suffix_param="input_suffix"
            )
        decoded = decode_body(body, _COMPLETION)
        return self._request(decoded, prompts=read_texts(decoded.prompt, "prompt"))  # type: ignore[arg-type]

    def _request(self, decoded: schema.LlamaRequest, **more: Any) -> GenerationRequest:
        if decoded.n_probs:
            raise InvalidRequest("n_probs is not supported; leave it out", param="n_probs")
        self._model = decoded.model or ""
        penalty = decoded.repetition_penalty if decoded.repeat_penalty is None else decoded.repeat_penalty
        # Seed -1 asks for a random one.
        seed = None if decoded.seed == -1 else decoded.seed
        given = msgspec.structs.replace(decoded, repetition_penalty=penalty, seed=seed)
        wanted = (
            None
            if decoded.json_schema is None
            else schema_constraint(decoded.json_schema, param="json_schema", is_strict=False)
        )
        return GenerationRequest(
            model=self._model,
            sampling=sampling_options(given, num_top_logprobs=None),
            constraint=requested_constraint(decoded, response_format=wanted),
            max_tokens=None if decoded.n_predict is None or decoded.n_predict < 0 else decoded.n_predict,
            stop=tuple(decoded.stop or ()),
            ignore_eos=bool(decoded.ignore_eos),
            stream=bool(decoded.stream),
            adapters=adapter_choices(decoded),
            **more,
        )

    def begin(self, prompt: Usage) -> bytes:  # noqa: ARG002 -- this protocol counts at the end
        """Return nothing: the first event has the first text."""
        return b""

    def on_event(self, event: StreamEvent, number: int = 0) -> bytes:  # noqa: ARG002 -- one answer only
        """Return the event of a text, and of the end."""
        if self._first is None and not isinstance(event, PromptProgress):
            self._first = time.perf_counter()
        if isinstance(event, TextDelta):
            return _event(schema.LlamaCompletion(content=event.text, stop=False)) if event.text else b""
        if isinstance(event, Finished):
            now = time.perf_counter()
            first = now if self._first is None else self._first
            seconds = first - self._started, now - first
            return _event(self._end("", event.reason, event.stop_sequence, event.usage, *seconds))
        return b""

    def finish(self) -> bytes:
        """Return nothing: the last event has ended the stream."""
        return b""

    def on_error(self, error: MlxctlError, *, request_id: str | None = None) -> bytes:  # noqa: ARG002 -- not in its shape
        """Return the error as the last event."""
        return b"data: " + llama_error(error).body + b"\n\n"

    def ping(self) -> bytes:
        """Return a comment, which clients ignore."""
        return b": ping\n\n"

    def whole(self, *results: TextResult) -> bytes:
        """Return the whole answer."""
        (result,) = results
        return _encode(
            self._end(
                result.text,
                result.reason,
                result.stop_sequence,
                result.usage,
                result.prefill_seconds,
                result.decode_seconds,
            )
        )

    def _end(
        self,
        text: str,
        reason: FinishReason,
        stop_sequence: str | None,
        usage: Usage,
        prefill_seconds: float,
        decode_seconds: float,
    ) -> schema.LlamaCompletion:
        num_prefilled = usage.num_prompt_tokens - usage.num_cached_tokens
        num_predicted = usage.num_completion_tokens
        num_drafted = usage.num_accepted_draft_tokens + usage.num_rejected_draft_tokens
        return schema.LlamaCompletion(
            content=text,
            stop=True,
            model=self._model,
            tokens_predicted=num_predicted,
            tokens_evaluated=usage.num_prompt_tokens,
            tokens_cached=usage.num_cached_tokens,
            truncated=False,
            stop_type=_STOP_TYPES[reason],
            stopping_word=stop_sequence or "",
            timings=schema.LlamaTimings(
                cache_n=usage.num_cached_tokens,
                prompt_n=num_prefilled,
                prompt_ms=prefill_seconds * 1000,
                prompt_per_token_ms=_ratio(prefill_seconds * 1000, num_prefilled),
                prompt_per_second=_ratio(num_prefilled, prefill_seconds),
                predicted_n=num_predicted,
                predicted_ms=decode_seconds * 1000,
                predicted_per_token_ms=_ratio(decode_seconds * 1000, num_predicted),
                predicted_per_second=_ratio(num_predicted, decode_seconds),
                draft_n=num_drafted or UNSET,
                draft_n_accepted=usage.num_accepted_draft_tokens if num_drafted else UNSET,
            ),
        )


def _ratio(amount: float, per: float) -> float:
    return amount / per if per else 0.0


def _event(answer: schema.LlamaCompletion) -> bytes:
    return b"data: " + _encode(answer) + b"\n\n"
