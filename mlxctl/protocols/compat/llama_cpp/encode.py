"""llama.cpp's `/completion` and `/infill`.

A stream is server-sent events without an end mark: the last one has `stop` true.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from mlxctl.ir import (
    CacheOptions,
    Finished,
    FinishReason,
    GeneratedTokens,
    GenerationRequest,
    PromptProgress,
    StreamEvent,
    TextDelta,
    TextResult,
    TokenLogprob,
    TopLogprob,
    Usage,
)
from mlxctl.ir.errors import InvalidRequest, MlxctlError
from mlxctl.protocols.compat.llama_cpp import schema
from mlxctl.protocols.compat.llama_cpp.errors import llama_error
from mlxctl.protocols.decoding import decode_body
from mlxctl.protocols.encoder import AnswerStart, ReplyShape
from mlxctl.protocols.extension_fields import with_extensions
from mlxctl.protocols.openai.logprobs import LOWEST
from mlxctl.protocols.openai.text_inputs import TextInputs, read_texts
from mlxctl.protocols.ranges import MAX_ANSWERS
from mlxctl.protocols.sampling_fields import sampling_options
from mlxctl.protocols.structured_output import json_schema_constraint, requested_constraint
from mlxctl.protocols.timings import PrefillProgress, Stopwatch, Timings, timings

_COMPLETION = msgspec.json.Decoder(schema.LlamaCompletionRequest)
_INFILL = msgspec.json.Decoder(schema.LlamaInfillRequest)
_STOP_TYPES: dict[FinishReason, Literal["eos", "limit", "word"]] = {
    "stop": "eos",
    "stop_sequence": "word",
    "length": "limit",
    "tool_calls": "eos",
    "refusal": "eos",
}
# The strongest bias that requests may set.
_BANNED = -100.0
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaShape(ReplyShape):
    """The shape of an answer, a list if the request `is_batch`.

    `asked` is the request, whose options the answer repeats, `num_predicted` its limit or -1.
    """

    asked: schema.LlamaRequest
    prompts: tuple[str | tuple[int, ...], ...]
    num_predicted: int
    is_batch: bool = False


def parse_completion(body: bytes) -> tuple[GenerationRequest, LlamaShape]:
    """Parse a body of `/completion`. Raises InvalidRequest."""
    decoded = decode_body(body, _COMPLETION)
    prompts = read_texts(_without_objects(decoded.prompt), "prompt")
    if len(prompts) > MAX_ANSWERS:
        message = f"prompt has {len(prompts)} texts; a request may have {MAX_ANSWERS}"
        raise InvalidRequest(message, param="prompt")
    is_batch = isinstance(decoded.prompt, list) and not isinstance(decoded.prompt[0], int)
    return _parsed(decoded, prompts, is_batch=is_batch)


def parse_infill(body: bytes) -> tuple[GenerationRequest, LlamaShape]:
    """Parse a body of `/infill`. Raises InvalidRequest."""
    infill = decode_body(body, _INFILL)
    extra = "".join(f"{file.filename or 'file'}\n{file.text}\n" for file in infill.input_extra or ())
    prompt = f"{extra}{infill.input_prefix}{infill.prompt or ''}"
    request, shape = _parsed(infill, (prompt,))
    return replace(request, suffix=infill.input_suffix, suffix_param="input_suffix"), shape


def _parsed(
    decoded: schema.LlamaRequest, prompts: tuple[str | tuple[int, ...], ...], *, is_batch: bool = False
) -> tuple[GenerationRequest, LlamaShape]:
    if decoded.post_sampling_probs:
        message = "post_sampling_probs is not supported; n_probs gives log-probabilities before sampling"
        raise InvalidRequest(message, param="post_sampling_probs")
    limit = decoded.max_tokens if decoded.n_predict is None else decoded.n_predict
    num_predicted = -1 if limit is None else limit
    penalty = decoded.repetition_penalty if decoded.repeat_penalty is None else decoded.repeat_penalty
    # Seed -1 asks for a random one.
    seed = None if decoded.seed == -1 else decoded.seed
    given = msgspec.structs.replace(decoded, repetition_penalty=penalty, seed=seed, logit_bias=_bias(decoded))
    translated = GenerationRequest(
        model=decoded.model or "",
        prompts=prompts,
        sampling=sampling_options(given, num_top_logprobs=decoded.n_probs or None),
        constraint=requested_constraint(decoded, json_schema_constraint(decoded.json_schema)),
        max_tokens=None if num_predicted < 0 else num_predicted,
        stop=tuple(decoded.stop or ()),
        ignore_eos=bool(decoded.ignore_eos),
        reports_tokens=bool(decoded.stream or decoded.return_tokens),
        stream=bool(decoded.stream),
        cache=CacheOptions(mode="off" if decoded.cache_prompt is False else "full"),
    )
    shape = LlamaShape(
        model=translated.model,
        asked=decoded,
        prompts=prompts,
        num_predicted=num_predicted,
        is_batch=is_batch,
    )
    return with_extensions(translated, decoded), shape


class LlamaEncoder:
    """Writes one answer.

    A stream's times are measured from its creation.
    """

    begins_with_usage = False

    def __init__(self, shape: LlamaShape) -> None:
        self._shape = shape
        self._model = shape.model
        self._stopwatch = Stopwatch()
        self._usages: dict[int, Usage] = {}
        self._token_ids: dict[int, list[int]] = {}
        self._with_new_line: set[int] = set()
        self._settings: schema.GenerationSettings | UnsetType = UNSET

    def start(self, start: AnswerStart) -> None:
        """Take the model and the final sampling values, which the answer repeats."""
        self._model = start.model
        asked, sampling, num_predicted = self._shape.asked, start.sampling, self._shape.num_predicted
        self._settings = schema.GenerationSettings(
            seed=sampling.seed,
            temperature=sampling.temperature,
            top_k=sampling.top_k,
            top_p=sampling.top_p,
            min_p=sampling.min_p,
            typical_p=sampling.typical_p,
            xtc_probability=sampling.xtc_probability,
            xtc_threshold=sampling.xtc_threshold,
            repeat_penalty=sampling.repetition_penalty,
            presence_penalty=sampling.presence_penalty,
            frequency_penalty=sampling.frequency_penalty,
            n_predict=num_predicted,
            max_tokens=num_predicted,
            ignore_eos=bool(asked.ignore_eos),
            stop=asked.stop or [],
            stream=bool(asked.stream),
            n_probs=asked.n_probs or 0,
        )

    def begin(self, prompt: Usage) -> bytes:  # noqa: ARG002 -- this protocol counts at the end
        """Return nothing: the first event has the first text."""
        return b""

    def on_event(self, event: StreamEvent, number: int = 0) -> bytes:
        """Return the event of a text, and of the end."""
        if isinstance(event, PromptProgress):
            if not self._shape.asked.return_progress:
                return b""
            return self._progress_event(number, self._stopwatch.progress(event))
        is_first = self._stopwatch.first(number)
        if isinstance(event, GeneratedTokens):
            self._usages[number] = event.usage
            self._token_ids.setdefault(number, []).extend(event.token_ids)
            wants_progress = is_first and self._shape.asked.return_progress
            return (
                self._progress_event(number, self._stopwatch.prefilled(event.usage))
                if wants_progress
                else b""
            )
        if isinstance(event, TextDelta):
            if "\n" in event.text:
                self._with_new_line.add(number)
            return self._piece(event, number) if event.text or event.logprobs else b""
        if isinstance(event, Finished):
            end = self._end(number, event, self._stopwatch.timings(number, event.usage))
            return b"data: " + _encode(self._selected(end)) + b"\n\n"
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
        """Return the whole answer, for a list of prompts a list."""
        answers = [self._selected(self._whole(number, result)) for number, result in enumerate(results)]
        return _encode(answers if self._shape.is_batch else answers[0])

    def _whole(self, number: int, result: TextResult) -> schema.LlamaCompletion:
        if "\n" in result.text:
            self._with_new_line.add(number)
        times = timings(
            result.usage, prefill_seconds=result.prefill_seconds, decode_seconds=result.decode_seconds
        )
        end = self._end(number, result, times)
        end.content = result.text
        end.tokens = list(result.token_ids)
        end.completion_probabilities = self._probabilities(result.logprobs)
        return end

    def _piece(self, event: TextDelta, number: int) -> bytes:
        piece = schema.LlamaCompletion(
            index=number,
            content=event.text,
            tokens=self._token_ids.pop(number, []),
            stop=False,
            completion_probabilities=self._probabilities(event.logprobs),
        )
        if self._shape.asked.timings_per_token:
            piece.timings = self._stopwatch.timings(number, self._usages[number])
        return b"data: " + _encode(piece) + b"\n\n"

    def _progress_event(self, number: int, progress: PrefillProgress) -> bytes:
        piece = schema.LlamaCompletion(index=number, content="", tokens=[], stop=False)
        piece.prompt_progress = progress
        return b"data: " + _encode(piece) + b"\n\n"

    def _probabilities(self, logprobs: Iterable[TokenLogprob]) -> list[schema.LlamaTokenLogprob] | UnsetType:
        if not self._shape.asked.n_probs:
            return UNSET
        return [
            schema.LlamaTokenLogprob(
                **_candidate(token),
                top_logprobs=[schema.LlamaCandidate(**_candidate(other)) for other in token.top],
            )
            for token in logprobs
        ]

    def _selected(self, answer: schema.LlamaCompletion) -> schema.LlamaCompletion | dict[str, Any]:
        """Return the answer, or its fields at the requested paths."""
        if not self._shape.asked.response_fields:
            return answer
        fields, found = msgspec.to_builtins(answer), {}
        for path in self._shape.asked.response_fields:
            value: Any = fields
            for name in path.split("/"):
                value = value.get(name, UNSET) if isinstance(value, dict) else UNSET
            if value is not UNSET:
                found[path] = value
        return found

    def _end(self, number: int, end: Finished | TextResult, times: Timings) -> schema.LlamaCompletion:
        usage, prompt = end.usage, self._shape.prompts[number]
        return schema.LlamaCompletion(
            index=number,
            content="",
            tokens=[],
            stop=True,
            prompt=prompt if isinstance(prompt, str) else UNSET,
            generation_settings=self._settings,
            has_new_line=number in self._with_new_line,
            model=self._model,
            tokens_predicted=usage.num_completion_tokens,
            tokens_evaluated=usage.num_prompt_tokens,
            tokens_cached=usage.num_cached_tokens,
            truncated=False,
            stop_type=_STOP_TYPES[end.reason],
            stopping_word=end.stop_sequence or "",
            timings=times,
        )


def _without_objects(prompt: schema.LlamaPrompt) -> TextInputs:
    """Return the prompts with texts in place of objects. Raises InvalidRequest."""
    if isinstance(prompt, list):
        return [
            _text(item, f"prompt[{index}]") if isinstance(item, schema.PromptObject) else item
            for index, item in enumerate(prompt)
        ]
    return _text(prompt, "prompt") if isinstance(prompt, schema.PromptObject) else prompt


def _text(prompt: schema.PromptObject, path: str) -> str:
    if prompt.multimodal_data:
        param = f"{path}.multimodal_data"
        raise InvalidRequest(f"{param} is not supported; send images to /v1/chat/completions", param=param)
    return prompt.prompt_string


def _bias(fields: schema.LlamaRequest) -> dict[int, float] | None:
    """Return the biases by token id.

    False is the bias that bans a token.
    """
    given = fields.logit_bias
    if given is None or isinstance(given, dict):
        return given
    return {token_id: _BANNED if bias is False else bias for token_id, bias in given}


def _candidate(token: TokenLogprob | TopLogprob) -> dict[str, Any]:
    assert token.logprob is not None, "only the first token of a prompt has none, and prompts are not scored"
    return {
        "id": token.token_id,
        "token": token.token,
        "bytes": list(token.data),
        "logprob": max(token.logprob, LOWEST),
    }
