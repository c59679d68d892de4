"""OpenAI's legacy completions: the formatter. Knows no HTTP and no model.

A stream is chunks of the same shape as the whole, then `[DONE]`; it fails as a chat's does, with an error
object and without a finish_reason. What a chat would take for thinking or a call is text here, so only text
is ever said.
"""

import secrets
import time
from collections.abc import Sequence
from statistics import fmean

import msgspec

from mlxctl.errors import MlxctlError
from mlxctl.ir import Finished, GenerationRequest, PromptProgress, StreamEvent, TextDelta, TextResult, Usage
from mlxctl.protocols.openai.completions_parsing import decode_completion, to_generation_request
from mlxctl.protocols.openai.errors import error_json
from mlxctl.protocols.openai.text_logprobs import TextLogprobs
from mlxctl.protocols.openai.usage import total_usage, usage_object

_DONE = b"data: [DONE]\n\n"
_encode = msgspec.json.Encoder().encode


class OpenAICompletionsFormatter:
    """One completion request.

    `system_fingerprint` names the serving configuration, `response_id` and `created` (unix seconds) are made
    up when not given.

    PERF: everything of a chunk but its text is encoded once, in `parse`.
    """

    dropped_tools: tuple[str, ...] = ()

    begins_with_counts = False

    def __init__(
        self,
        *,
        system_fingerprint: str | None = None,
        response_id: str | None = None,
        created: int | None = None,
    ) -> None:
        self._system_fingerprint = system_fingerprint
        self._id = response_id or f"cmpl-{secrets.token_hex(16)}"
        self._created = int(time.time()) if created is None else created
        self._usages: dict[int, Usage] = {}

    def parse(self, body: bytes) -> GenerationRequest:
        """Read a request body. Raises InvalidRequest."""
        completion = decode_completion(body)
        request = to_generation_request(completion)
        self._model = completion.model
        self._include_usage = bool(completion.stream_options and completion.stream_options.include_usage)
        self._wants_logprobs = completion.logprobs is not None
        self._scores_prompt = request.scores_prompt
        self._num_tried, self._num_wanted = request.num_choices, completion.n or 1
        self._logprobs = [TextLogprobs() for _ in range(len(request.prompts) * request.num_choices)]
        self._head = b"data: " + _encode(self._envelope())[:-1] + b',"choices":[{"text":'
        self._tail = b',"usage":null}\n\n' if self._include_usage else b"}\n\n"
        return request

    def begin(self, prompt: Usage) -> bytes:  # noqa: ARG002 -- this protocol counts at the end
        """Return nothing: the first chunk is the first text."""
        return b""

    def on_event(self, event: StreamEvent, number: int = 0) -> bytes:
        """Return the chunk for `event` of choice `number`; progress is a comment."""
        match event:
            case TextDelta():
                return self._text(event, number) if event.text or event.logprobs else b""
            case Finished():
                self._usages[number] = event.usage
                return self._chunk(number, b'""', finish_reason=_encode(_finish_reason(event)))
            case PromptProgress():
                return b": prefill %d/%d\n\n" % (event.num_processed, event.num_prompt_tokens)
            case _:
                raise AssertionError(f"a continued text holds no {type(event).__name__}")

    def finish(self) -> bytes:
        """Return the usage, when it was asked for, and the end mark."""
        if not self._include_usage:
            return _DONE
        usages = [self._usages[number] for number in range(len(self._logprobs))]
        usage = usage_object(total_usage(usages, num_choices=self._num_tried))
        return b"data: " + _encode(self._envelope() | {"choices": [], "usage": usage}) + b"\n\n" + _DONE

    def on_error(self, error: MlxctlError) -> bytes:
        """Return the error object and the end mark, without a finish_reason."""
        return b"data: " + error_json(error) + b"\n\n" + _DONE

    def ping(self) -> bytes:
        """Return a comment."""
        return b": ping\n\n"

    def whole(self, *results: TextResult) -> bytes:
        """Return the text_completion object: of the answers to each prompt, the best `n`."""
        best: list[TextResult] = []
        for start in range(0, len(results), self._num_tried):
            best += self._best(results[start : start + self._num_tried])
        choices = [
            {
                "text": result.text,
                "index": index,
                "logprobs": TextLogprobs().write(result.logprobs) if self._wants_logprobs else None,
                "finish_reason": _finish_reason(result),
            }
            for index, result in enumerate(best)
        ]
        usage = total_usage([result.usage for result in results], num_choices=self._num_tried)
        return _encode(self._envelope() | {"choices": choices, "usage": usage_object(usage)})

    def _best(self, results: Sequence[TextResult]) -> Sequence[TextResult]:
        """Return the answers whose tokens were likeliest on average, best first; one without any token comes
        last.
        """
        if self._num_tried == self._num_wanted:
            return results
        return sorted(results, key=self._likelihood, reverse=True)[: self._num_wanted]

    def _likelihood(self, result: TextResult) -> float:
        generated = result.logprobs[result.usage.num_prompt_tokens if self._scores_prompt else 0 :]
        return fmean(token.logprob or 0.0 for token in generated) if generated else float("-inf")

    def _envelope(self) -> dict[str, object]:
        return {
            "id": self._id,
            "object": "text_completion",
            "created": self._created,
            "model": self._model,
            "system_fingerprint": self._system_fingerprint,
        }

    def _text(self, event: TextDelta, number: int) -> bytes:
        logprobs = _encode(self._logprobs[number].write(event.logprobs)) if self._wants_logprobs else b"null"
        return self._chunk(number, _encode(event.text), logprobs=logprobs)

    def _chunk(
        self, number: int, text: bytes, *, logprobs: bytes = b"null", finish_reason: bytes = b"null"
    ) -> bytes:
        choice = b',"index":%d,"logprobs":%b,"finish_reason":%b}]' % (number, logprobs, finish_reason)
        return self._head + text + choice + self._tail


def _finish_reason(end: Finished | TextResult) -> str:
    return "length" if end.reason == "length" else "stop"
