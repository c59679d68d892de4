"""SGLang's `/generate`: prompts continued as they are.

A stream is server-sent events with the whole text so far, then `[DONE]`.
"""

import secrets
import time
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from mlxctl.ir import (
    Constraint,
    Finished,
    GeneratedTokens,
    GenerationRequest,
    StreamEvent,
    TextDelta,
    TextResult,
    TokenLogprob,
    Usage,
)
from mlxctl.ir.errors import InvalidRequest, MlxctlError
from mlxctl.protocols.decoding import decode_body
from mlxctl.protocols.extension_fields import ExtensionFields, with_extensions
from mlxctl.protocols.openai.errors import error_json
from mlxctl.protocols.openai.logprobs import LOWEST
from mlxctl.protocols.openai.text_inputs import TokenId, read_texts
from mlxctl.protocols.priority import Priority
from mlxctl.protocols.ranges import (
    MAX_ANSWERS,
    MaxTokensOrZero,
    Name,
    NumChoices,
    NumTopLogprobs,
    StopString,
    StopStrings,
    StopTokenIds,
)
from mlxctl.protocols.sampling_fields import MinTokens, sampling_options
from mlxctl.protocols.structured_output import (
    StructuredOutputFields,
    json_schema_constraint,
    requested_constraint,
)

_DEFAULT_MAX_TOKENS = 128
_UNSUPPORTED = (
    "image_data",
    "audio_data",
    "video_data",
    "input_embeds",
    "session_params",
    "custom_logit_processor",
    "return_hidden_states",
)
_encode = msgspec.json.Encoder().encode


class SGLangSampling(StructuredOutputFields, kw_only=True):
    """Sampling of a request; `json_schema` is a JSON schema as text.

    mlxctl's own fields belong beside it and are refused here.
    """

    max_new_tokens: MaxTokensOrZero | None = None
    min_new_tokens: MinTokens | None = None
    stop: StopString | StopStrings | None = None
    stop_token_ids: StopTokenIds | None = None
    ignore_eos: bool | None = None
    n: NumChoices | None = None
    json_schema: str | None = None
    skip_special_tokens: bool | None = None
    sampling_seed: int | None = None


class SGLangRequest(ExtensionFields, kw_only=True):
    """Texts or token ids to continue.

    Without a `model` the default one answers. With `return_logprob` the answer has the log-probabilities of
    its tokens and of the `top_logprobs_num` likeliest ones; those of the prompt are refused.
    """

    model: Name | None = None
    priority: Annotated[
        Priority | None,
        Meta(description="As in SGLang, a higher value is served first; 0 is the default."),
    ] = None
    text: str | Annotated[list[str], Meta(min_length=1)] | None = None
    input_ids: list[TokenId | list[TokenId]] | None = None
    sampling_params: SGLangSampling | None = None
    stream: bool | None = None
    rid: Name | None = None
    return_logprob: bool | None = None
    top_logprobs_num: NumTopLogprobs | None = None
    logprob_start_len: int | None = None
    image_data: Any = None
    audio_data: Any = None
    video_data: Any = None
    input_embeds: Any = None
    session_params: Any = None
    custom_logit_processor: Any = None
    return_hidden_states: bool | None = None


class SGLangFinish(Struct, kw_only=True):
    """Why the answer ended.

    `matched` is the stop string, if it was one.
    """

    type: Literal["stop", "length"]
    matched: str | UnsetType | None = UNSET
    length: int | UnsetType = UNSET


LogprobTriple = tuple[float, int, None]


class SGLangMeta(Struct, kw_only=True):
    """Counts so far, and at the end the time in seconds.

    A log-probability is a triple with the token's id.
    """

    id: str
    finish_reason: SGLangFinish | None
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    e2e_latency: float | UnsetType = UNSET
    output_token_logprobs: list[LogprobTriple] | UnsetType = UNSET
    output_top_logprobs: list[list[LogprobTriple]] | UnsetType = UNSET


class SGLangAnswer(Struct, kw_only=True):
    """The text so far.

    A whole answer and the last event of a stream have the token ids. With several answers each event has the
    `index` of its one.
    """

    text: str
    meta_info: SGLangMeta
    output_ids: list[int] | UnsetType = UNSET
    index: int | UnsetType = UNSET


_DECODER = msgspec.json.Decoder(SGLangRequest)
_SCHEMA = msgspec.json.Decoder(dict[str, Any])


class _Answer:
    """An answer as far as its stream has come."""

    def __init__(self) -> None:
        self.text = ""
        self.token_ids: list[int] = []
        self.logprobs: list[TokenLogprob] = []
        self.usage = Usage(num_prompt_tokens=0, num_completion_tokens=0)


class SGLangFormatter:
    """Formatter of one request; a stream's time is measured from its creation."""

    dropped_tools: tuple[str, ...] = ()
    begins_with_usage = False

    def __init__(self) -> None:
        self._started = time.perf_counter()
        self._answers: dict[int, _Answer] = {}

    def parse(self, body: bytes) -> GenerationRequest:
        """Parse a body. Raises InvalidRequest."""
        decoded = decode_body(body, _DECODER)
        _check(decoded)
        field = "input_ids" if decoded.text is None else "text"
        given: Any = getattr(decoded, field)
        prompts = read_texts(given, field)
        sampling = decoded.sampling_params or SGLangSampling()
        num_choices = sampling.n or 1
        if len(prompts) * num_choices > MAX_ANSWERS:
            message = f"{len(prompts)} prompts with n {num_choices}; a request may have {MAX_ANSWERS} answers"
            raise InvalidRequest(message, param=field)
        self._is_list = len(prompts) * num_choices > 1 or (
            isinstance(given, list) and not isinstance(given[0], int)
        )
        self._id = decoded.rid or secrets.token_hex(16)
        self._has_logprobs = bool(decoded.return_logprob)
        fields = msgspec.structs.replace(
            sampling,
            seed=sampling.seed if sampling.sampling_seed is None else sampling.sampling_seed,
            min_tokens=sampling.min_tokens if sampling.min_new_tokens is None else sampling.min_new_tokens,
        )
        num_top = (decoded.top_logprobs_num or 0) if self._has_logprobs else None
        stop = sampling.stop or ()
        translated = GenerationRequest(
            model=decoded.model or "",
            prompts=prompts,
            num_choices=num_choices,
            sampling=sampling_options(fields, num_top_logprobs=num_top),
            constraint=requested_constraint(sampling, _constraint(sampling)),
            max_tokens=_DEFAULT_MAX_TOKENS if sampling.max_new_tokens is None else sampling.max_new_tokens,
            stop=(stop,) if isinstance(stop, str) else tuple(stop),
            stop_token_ids=tuple(sampling.stop_token_ids or ()),
            ignore_eos=bool(sampling.ignore_eos),
            reports_tokens=True,
            stream=bool(decoded.stream),
        )
        # Here, lower values are served first.
        priority = None if decoded.priority is None else -decoded.priority
        return with_extensions(translated, msgspec.structs.replace(decoded, priority=priority))

    def set_model(self, name: str) -> None:
        """Do nothing: answers have no model's name."""

    def begin(self, prompt: Usage) -> bytes:  # noqa: ARG002 -- each event has the counts
        """Return nothing: the first event has the first text."""
        return b""

    def on_event(self, event: StreamEvent, number: int = 0) -> bytes:
        """Return the event of a text, and of the end."""
        answer = self._answers.setdefault(number, _Answer())
        match event:
            case GeneratedTokens():
                answer.usage = event.usage
                answer.token_ids.extend(event.token_ids)
                return b""
            case TextDelta():
                answer.text += event.text
                answer.logprobs.extend(event.logprobs)
                if not event.text:
                    return b""
                return self._event(SGLangAnswer(text=answer.text, meta_info=self._meta(answer.usage)), number)
            case Finished():
                end = SGLangAnswer(
                    text=answer.text,
                    meta_info=self._meta(event.usage, event, answer.logprobs),
                    output_ids=answer.token_ids,
                )
                return self._event(end, number)
            case _:
                return b""

    def finish(self) -> bytes:
        """Return the end mark."""
        return b"data: [DONE]\n\n"

    def on_error(self, error: MlxctlError, *, request_id: str | None = None) -> bytes:  # noqa: ARG002 -- not in its shape
        """Return the error as the last event."""
        return b"data: " + error_json(error, prompt_field="text") + b"\n\n" + self.finish()

    def ping(self) -> bytes:
        """Return a comment, which clients ignore."""
        return b": ping\n\n"

    def whole(self, *results: TextResult) -> bytes:
        """Return the answer; for several prompts or answers, a list."""
        answers = [
            SGLangAnswer(
                text=result.text,
                meta_info=self._meta(result.usage, result, result.logprobs),
                output_ids=list(result.token_ids),
            )
            for result in results
        ]
        return _encode(answers if self._is_list else answers[0])

    def _event(self, answer: SGLangAnswer, number: int) -> bytes:
        if self._is_list:
            answer.index = number
        return b"data: " + _encode(answer) + b"\n\n"

    def _meta(
        self,
        usage: Usage,
        end: Finished | TextResult | None = None,
        logprobs: "list[TokenLogprob] | tuple[TokenLogprob, ...]" = (),
    ) -> SGLangMeta:
        meta = SGLangMeta(
            id=self._id,
            finish_reason=None if end is None else _finish(end),
            prompt_tokens=usage.num_prompt_tokens,
            completion_tokens=usage.num_completion_tokens,
            cached_tokens=usage.num_cached_tokens,
        )
        if end is not None:
            meta.e2e_latency = round(time.perf_counter() - self._started, 6)
            if self._has_logprobs:
                meta.output_token_logprobs = [_triple(token) for token in logprobs]
                meta.output_top_logprobs = [[_triple(other) for other in token.top] for token in logprobs]
        return meta


def _check(request: SGLangRequest) -> None:
    """Raise InvalidRequest for what cannot be honored."""
    if (request.text is None) == (request.input_ids is None):
        raise InvalidRequest("send either text or input_ids", param="text")
    if refused := next((name for name in _UNSUPPORTED if getattr(request, name)), None):
        raise InvalidRequest(f"{refused} is not supported; leave it out", param=refused)
    if request.logprob_start_len is not None and request.logprob_start_len >= 0:
        raise InvalidRequest(
            "logprob_start_len is not supported: prompts have no log-probabilities here; use -1",
            param="logprob_start_len",
        )
    sampling = request.sampling_params or SGLangSampling()
    for name in ExtensionFields.__struct_fields__:
        if getattr(sampling, name) is not None:
            message = f"{name} belongs beside sampling_params, not into it"
            raise InvalidRequest(message, param=f"sampling_params.{name}")
    if sampling.skip_special_tokens is False:
        param = "sampling_params.skip_special_tokens"
        raise InvalidRequest(f"{param} false is not supported; leave it out", param=param)


def _constraint(sampling: SGLangSampling) -> Constraint | None:
    if sampling.json_schema is None:
        return None
    try:
        schema = _SCHEMA.decode(sampling.json_schema)
    except (msgspec.DecodeError, RecursionError) as error:
        param = "sampling_params.json_schema"
        raise InvalidRequest(f"{param} is not a JSON schema: {error}", param=param) from error
    return json_schema_constraint(schema)


def _finish(end: Finished | TextResult) -> SGLangFinish:
    if end.reason == "length":
        return SGLangFinish(type="length", length=end.usage.num_completion_tokens)
    return SGLangFinish(type="stop", matched=end.stop_sequence)


def _triple(token: Any) -> LogprobTriple:
    return max(token.logprob, LOWEST), token.token_id, None
