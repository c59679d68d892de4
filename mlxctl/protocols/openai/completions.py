"""OpenAI's legacy completions.

A stream is chunks of the same shape as the whole, then `[DONE]`; it fails like a chat's, with an error object
and without a finish_reason. Answers are text only: thinking and calls are not parsed.
"""

import secrets
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

import msgspec
from msgspec import UNSET, UnsetType

from mlxctl.ir import (
    Finished,
    GeneratedTokens,
    GenerationRequest,
    PromptProgress,
    StreamEvent,
    TextDelta,
    TextResult,
    TokenLogprob,
    Usage,
)
from mlxctl.ir.errors import MlxctlError
from mlxctl.protocols.encoder import AnswerStart, ReplyShape
from mlxctl.protocols.openai.chat_answers import PromptLogprobs
from mlxctl.protocols.openai.completion_fields import counts_every_chunk
from mlxctl.protocols.openai.completions_parsing import decode_completion, to_generation_request
from mlxctl.protocols.openai.completions_schema import (
    CompletionRequest,
    TextChoice,
    TextChunk,
    TextChunkChoice,
    TextCompletion,
    TextFinishReason,
    TextLogprobs,
)
from mlxctl.protocols.openai.errors import error_json
from mlxctl.protocols.openai.logprobs import LOWEST, prompt_logprobs, token_name
from mlxctl.protocols.openai.token_reports import TokenReport
from mlxctl.protocols.openai.usage import CompletionUsage, completion_usage

_DONE = b"data: [DONE]\n\n"
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionShape(ReplyShape):
    """The shape of a completion.

    Of `num_candidates` answers to each of `num_prompts` prompts, the best `num_choices` are returned.
    """

    num_prompts: int
    num_candidates: int
    num_choices: int
    includes_usage: bool
    num_top_logprobs: int | None
    num_top_prompt_logprobs: int | None
    writes_ids: bool
    scores_prompt: bool
    echoes: bool
    reports_tokens: bool
    has_token_ids: bool
    counts_chunks: bool

    @classmethod
    def of(cls, completion: CompletionRequest, request: GenerationRequest) -> "CompletionShape":
        """Return the shape that a body asks for."""
        return cls(
            model=completion.model,
            num_prompts=len(request.prompts),
            num_candidates=request.num_choices,
            num_choices=completion.n or 1,
            includes_usage=bool(completion.stream_options and completion.stream_options.include_usage),
            num_top_logprobs=completion.logprobs,
            num_top_prompt_logprobs=completion.prompt_logprobs,
            writes_ids=bool(completion.return_tokens_as_token_ids),
            scores_prompt=request.scores_prompt,
            echoes=request.echo,
            reports_tokens=request.reports_tokens,
            has_token_ids=bool(completion.return_token_ids),
            counts_chunks=counts_every_chunk(completion.stream_options),
        )


def parse_completion(body: bytes) -> tuple[GenerationRequest, CompletionShape]:
    """Parse a body of a completion. Raises InvalidRequest."""
    completion = decode_completion(body)
    request = to_generation_request(completion)
    return request, CompletionShape.of(completion, request)


class CompletionEncoder:
    """Writes one completion.

    `system_fingerprint` names the server's configuration; `response_id` and `created` (unix seconds) are
    generated if not given. PERF: chunks are encoded once, in `start`, but for their text.
    """

    begins_with_usage = False

    def __init__(
        self,
        shape: CompletionShape,
        *,
        system_fingerprint: str | None = None,
        response_id: str | None = None,
        created: int | None = None,
    ) -> None:
        self._shape = shape
        self._model = shape.model
        self._system_fingerprint = system_fingerprint
        self._id = response_id or f"cmpl-{secrets.token_hex(16)}"
        self._created = int(time.time()) if created is None else created
        self._usages: dict[int, Usage] = {}
        numbers = range(shape.num_prompts * shape.num_candidates)
        self._logprobs = [self._writer() for _ in numbers]
        self._reports = [TokenReport(has_ids=shape.has_token_ids) for _ in numbers]
        self._frames: list[tuple[bytes, bytes]] = []

    def start(self, start: AnswerStart) -> None:
        """Take the name of the model, which every chunk has."""
        self._model = start.model
        self._frames = [self._frame(number) for number in range(len(self._logprobs))]

    def begin(self, prompt: Usage) -> bytes:  # noqa: ARG002 -- this protocol counts at the end
        """Return nothing: the first chunk is the first text."""
        return b""

    def on_event(self, event: StreamEvent, number: int = 0) -> bytes:
        """Return the chunk for `event` of choice `number`; progress is a comment."""
        match event:
            case GeneratedTokens():
                self._reports[number].add_prompt(event.prompt_token_ids)
                self._reports[number].add(event)
                return b""
            case TextDelta():
                return self._text(event, number) if event.text or event.logprobs else b""
            case Finished():
                self._usages[number] = self._reports[number].usage = event.usage
                return self._chunk(number, finish_reason=_finish_reason(event))
            case PromptProgress():
                return b": prefill %d/%d\n\n" % (event.num_processed, event.num_prompt_tokens)
            case _:
                raise AssertionError(f"a continued text holds no {type(event).__name__}")

    def finish(self) -> bytes:
        """Return the usage, if requested, and the end mark."""
        if not self._shape.includes_usage:
            return _DONE
        usages = [self._usages[number] for number in range(len(self._logprobs))]
        usage = completion_usage(usages, num_choices=self._shape.num_candidates)
        return _event(self._chunk_object([], usage)) + _DONE

    def on_error(self, error: MlxctlError, *, request_id: str | None = None) -> bytes:  # noqa: ARG002 -- not in its shape
        """Return the error object and the end mark, without a finish_reason."""
        return b"data: " + error_json(error) + b"\n\n" + _DONE

    def ping(self) -> bytes:
        """Return a comment, which clients ignore."""
        return b": ping\n\n"

    def whole(self, *results: TextResult) -> bytes:
        """Return the text_completion object, with the best `n` answers to each prompt."""
        best: list[TextResult] = []
        for start in range(0, len(results), self._shape.num_candidates):
            best += self._best(results[start : start + self._shape.num_candidates])
        return _encode(
            TextCompletion(
                id=self._id,
                object="text_completion",
                created=self._created,
                model=self._model,
                system_fingerprint=self._system_fingerprint,
                choices=[
                    TextChoice(
                        text=result.text,
                        index=index,
                        logprobs=self._answer_logprobs(result),
                        finish_reason=_finish_reason(result),
                        prompt_logprobs=self._prompt_logprobs(result),
                        prompt_token_ids=self._reports[0].whole_prompt_ids(result),
                        token_ids=self._reports[0].whole_ids(result),
                    )
                    for index, result in enumerate(best)
                ],
                usage=completion_usage(
                    [result.usage for result in results], num_choices=self._shape.num_candidates
                ),
            )
        )

    def _best(self, results: Sequence[TextResult]) -> Sequence[TextResult]:
        """Return the answers with the highest mean log probability.

        Empty ones come last.
        """
        if self._shape.num_candidates == self._shape.num_choices:
            return results
        return sorted(results, key=self._mean_logprob, reverse=True)[: self._shape.num_choices]

    def _answer_logprobs(self, result: TextResult) -> TextLogprobs | None:
        if self._shape.num_top_logprobs is None:
            return None
        start = 0 if self._shape.echoes else self._num_scored(result)
        return self._writer().write(result.logprobs[start:])

    def _prompt_logprobs(self, result: TextResult) -> PromptLogprobs | UnsetType:
        if self._shape.num_top_prompt_logprobs is None:
            return UNSET
        return prompt_logprobs(
            result.logprobs[: self._num_scored(result)], self._shape.num_top_prompt_logprobs
        )

    def _num_scored(self, result: TextResult) -> int:
        """Return how many of an answer's first log-probabilities are its prompt's."""
        return result.usage.num_prompt_tokens if self._shape.scores_prompt else 0

    def _mean_logprob(self, result: TextResult) -> float:
        generated = result.logprobs[self._num_scored(result) :]
        return fmean(token.logprob or 0.0 for token in generated) if generated else float("-inf")

    def _writer(self) -> "TextLogprobsWriter":
        return TextLogprobsWriter(self._shape.num_top_logprobs or 0, as_ids=self._shape.writes_ids)

    def _frame(self, number: int) -> tuple[bytes, bytes]:
        """Return the bytes of a chunk before and after its text."""
        # Inside a JSON string the quotes would be escaped, so the pattern occurs once.
        head, tail = self._chunk(number).split(b'"text":""')
        return head + b'"text":', tail

    def _text(self, event: TextDelta, number: int) -> bytes:
        if self._shape.num_top_logprobs is not None:
            logprobs = self._logprobs[number].write(event.logprobs)
            return self._chunk(number, event.text, logprobs=logprobs)
        if self._shape.reports_tokens:
            return self._chunk(number, event.text)
        head, tail = self._frames[number]
        return head + _encode(event.text) + tail

    def _chunk(
        self,
        number: int,
        text: str = "",
        *,
        logprobs: TextLogprobs | None = None,
        finish_reason: TextFinishReason | None = None,
    ) -> bytes:
        report = self._reports[number]
        choice = TextChunkChoice(
            text=text,
            index=number,
            logprobs=logprobs,
            finish_reason=finish_reason,
            prompt_token_ids=report.take_prompt_ids(),
            token_ids=report.take_ids(),
        )
        # With include_usage every chunk has the key.
        usage: CompletionUsage | UnsetType | None = None if self._shape.includes_usage else UNSET
        if self._shape.counts_chunks:
            usage = completion_usage([report.usage], num_choices=1)
        return _event(self._chunk_object([choice], usage))

    def _chunk_object(
        self, choices: list[TextChunkChoice], usage: CompletionUsage | UnsetType | None
    ) -> TextChunk:
        return TextChunk(
            id=self._id,
            object="text_completion",
            created=self._created,
            model=self._model,
            system_fingerprint=self._system_fingerprint,
            choices=choices,
            usage=usage,
        )


class TextLogprobsWriter:
    """Writes the `logprobs` of one choice, piece by piece.

    With running character offsets and `num_top` candidates a token; `as_ids` writes ids in place of text.
    """

    def __init__(self, num_top: int, *, as_ids: bool = False) -> None:
        self._num_top = num_top
        self._as_ids = as_ids
        self._num_characters = 0

    def write(self, logprobs: Iterable[TokenLogprob]) -> TextLogprobs:
        """Return the lists for the next tokens."""
        tokens: list[str] = []
        chosen: list[float | None] = []
        candidates: list[dict[str, float] | None] = []
        offsets: list[int] = []
        for token in logprobs:
            name = token_name(token, as_id=self._as_ids)
            tokens.append(name)
            others = {
                token_name(candidate, as_id=self._as_ids): max(candidate.logprob, LOWEST)
                for candidate in token.top[: self._num_top]
            }
            logprob = None if token.logprob is None else max(token.logprob, LOWEST)
            chosen.append(logprob)
            candidates.append(None if logprob is None else others | {name: logprob})
            offsets.append(self._num_characters)
            self._num_characters += _num_starting_characters(token.data)
        return TextLogprobs(
            tokens=tokens, token_logprobs=chosen, top_logprobs=candidates, text_offset=offsets
        )


def _num_starting_characters(data: bytes) -> int:
    """Count the characters that start in these bytes.

    One may continue in the next token.
    """
    return sum(byte & 0xC0 != 0x80 for byte in data)


def _event(chunk: TextChunk) -> bytes:
    return b"data: " + _encode(chunk) + b"\n\n"


def _finish_reason(end: Finished | TextResult) -> TextFinishReason:
    if end.reason == "refusal":
        return "content_filter"
    return "length" if end.reason == "length" else "stop"
