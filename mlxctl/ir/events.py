"""What happens while a model answers: the one currency between engine, parsers, protocols, terminal and
bench.

A stream is: any number of PromptProgress, then deltas, then exactly one Finished. Thinking, text and tool
calls come in the order in which the model produced them and do not overlap: a delta of another kind ends what
was open. A tool call is one ToolCallStarted, any number of ToolArgumentsDelta with the same index, and one
ToolCallEnded; indexes count from 0.
"""

from dataclasses import dataclass
from typing import Literal

FinishReason = Literal["stop", "stop_sequence", "length", "tool_calls"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenScore:
    """What the engine knows of one token: its id, its natural log-probability in float32 (of the raw logits,
    before penalties and temperature), and the most likely candidates beside it as (id, log-probability), best
    first.
    """

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopLogprob:
    """One candidate for a place: its id, its bytes as text, and its natural log-probability (float32, before
    sampling).
    """

    token_id: int
    token: str
    data: bytes
    logprob: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogprob:
    """A token of an answer, its log-probability, and the most likely candidates beside it, best first.

    `data` are its bytes in the text, and `token` all of it. The first token of a prompt, which nothing comes
    before, has None.
    """

    token_id: int
    token: str
    data: bytes
    logprob: float | None
    top: tuple[TopLogprob, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Token counts of one request.

    Of the prompt, `num_cached_tokens` came from the prefix cache, `num_kept_tokens` were new to it and are
    kept, `num_longer_kept_tokens` of these for longer than the rest. `num_completion_tokens` includes
    thinking and tool calls.
    """

    num_prompt_tokens: int
    num_cached_tokens: int = 0
    num_stored_tokens: int = 0
    num_long_ttl_stored_tokens: int = 0
    num_completion_tokens: int = 0
    num_thinking_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptProgress:
    """The prompt is being read: `num_processed` of `num_prompt_tokens` are done, of which `num_cached` came
    from the cache.
    """

    num_processed: int
    num_cached: int
    num_prompt_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta:
    """More of the answer.

    `logprobs` are those of the tokens that begin in this text, when they were asked for.
    """

    text: str
    logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingDelta:
    """More of what the model thinks."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallStarted:
    """The model calls a tool; its arguments follow."""

    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolArgumentsDelta:
    """More of the arguments' JSON text of call `index`."""

    index: int
    json: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallEnded:
    """The arguments of call `index` are complete."""

    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The answer is over.

    `stop_sequence` is the stop string that ended it, if one did; it is never part of the text.
    """

    reason: FinishReason
    usage: Usage
    stop_sequence: str | None = None


StreamEvent = (
    PromptProgress
    | TextDelta
    | ThinkingDelta
    | ToolCallStarted
    | ToolArgumentsDelta
    | ToolCallEnded
    | Finished
)
