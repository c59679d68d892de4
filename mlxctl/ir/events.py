"""Events of one answer, from the parsers to every protocol.

A stream is any number of PromptProgress, then deltas, then exactly one Finished. Requests that ask for it get
GeneratedTokens before the events of those tokens. Thinking, text and tool calls come in the order of
generation and do not overlap: a delta of another kind ends the one before. A tool call is one
ToolCallStarted, any number of ToolArgumentsDelta with the same index, and one ToolCallEnded; indexes count
from 0.
"""

from dataclasses import dataclass
from typing import Literal

from mlxctl.ir.context_edits import AppliedEdit

FinishReason = Literal["stop", "stop_sequence", "length", "tool_calls", "refusal"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenScore:
    """The engine's log-probabilities of one token.

    `logprob` is natural, in float32, of the raw logits before penalties and temperature; `top` are the most
    likely candidates as (id, log-probability), best first.
    """

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopLogprob:
    """One candidate for a position.

    `data` are its bytes, `token` the same as text, `logprob` its natural log-probability (float32, before
    sampling).
    """

    token_id: int
    token: str
    data: bytes
    logprob: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogprob:
    """A token's log-probability and its most likely alternatives.

    `data` are its bytes in the text, `token` the whole token as text. `top` is sorted, best first. The first
    token of a prompt has the log-probability None.
    """

    token_id: int
    token: str
    data: bytes
    logprob: float | None
    top: tuple[TopLogprob, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Token counts of one request.

    Of the prompt, `num_cached_tokens` came from the prefix cache and `num_stored_tokens` were added to it, of
    which `num_long_ttl_stored_tokens` with the longer TTL. `num_completion_tokens` includes thinking and tool
    calls, and the draft tokens of speculative decoding that were accepted, but not the rejected ones.
    `num_dropped_messages` of the conversation did not fit into the context; `applied_edits` removed parts of
    it before.
    """

    num_prompt_tokens: int
    num_cached_tokens: int = 0
    num_stored_tokens: int = 0
    num_long_ttl_stored_tokens: int = 0
    num_completion_tokens: int = 0
    num_thinking_tokens: int = 0
    num_accepted_draft_tokens: int = 0
    num_rejected_draft_tokens: int = 0
    num_dropped_messages: int = 0
    applied_edits: tuple[AppliedEdit, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptProgress:
    """Progress of the prefill of a prompt.

    `num_processed` of `num_prompt_tokens` are done, of which `num_cached` came from the prefix cache.
    """

    num_processed: int
    num_cached: int
    num_prompt_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedTokens:
    """The next tokens of the answer, for requests with `reports_tokens`.

    Their events follow, possibly later. `usage` counts the answer up to here; the first of an answer has the
    `prompt_token_ids`.
    """

    token_ids: tuple[int, ...]
    usage: Usage
    prompt_token_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta:
    """More text of the answer.

    `logprobs` are those of the tokens that begin in this text, if requested.
    """

    text: str
    logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingDelta:
    """The next piece of thinking."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallStarted:
    """A tool call; its arguments follow."""

    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolArgumentsDelta:
    """More JSON text of the arguments of call `index`."""

    index: int
    json: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallEnded:
    """The arguments of call `index` are complete."""

    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The end of the answer.

    `stop_sequence` is the stop string that ended it, if one did; it is never part of the text.
    """

    reason: FinishReason
    usage: Usage
    stop_sequence: str | None = None


StreamEvent = (
    PromptProgress
    | GeneratedTokens
    | TextDelta
    | ThinkingDelta
    | ToolCallStarted
    | ToolArgumentsDelta
    | ToolCallEnded
    | Finished
)
