"""What chat completions answer: whole bodies and chunks of a stream."""

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from mlxctl.protocols.json_union import JsonUnion
from mlxctl.protocols.openai.token_reports import TokenIds
from mlxctl.protocols.openai.usage import CompletionUsage
from mlxctl.protocols.priority import ServedTier
from mlxctl.protocols.timings import PrefillProgress, Timings


class LogprobCandidate(Struct):
    """A likely token; `bytes` is its UTF-8."""

    token: str
    bytes: list[int]
    logprob: float


class SampledTokenLogprob(LogprobCandidate):
    """The sampled token and the likeliest ones at its position."""

    top_logprobs: list[LogprobCandidate]


class ChatLogprobs(Struct):
    """Log probabilities of a message."""

    content: list[SampledTokenLogprob]
    refusal: None


class PromptLogprob(Struct):
    """Log-probability of one token at one position of a prompt (vLLM).

    `rank` 1 is the likeliest token of the vocabulary; null is below the requested ones.
    """

    logprob: float
    rank: int | None
    decoded_token: str


PromptLogprobs = list[dict[str, PromptLogprob] | None]
"""For each position of a prompt, its token and the likeliest ones by id; the first position has none."""


class ChatCall(JsonUnion):
    """A tool call of a message."""

    __slots__ = ()


class ChatFunctionCall(Struct):
    """Name and arguments of a function call; `arguments` is JSON text."""

    name: str
    arguments: str


class ChatFunctionToolCall(Struct, ChatCall):
    """A call of a function."""

    id: str
    type: Literal["function"]
    function: ChatFunctionCall


class ChatCustomCall(Struct):
    """Name and input text of a call of a custom tool."""

    name: str
    input: str


class ChatCustomToolCall(Struct, ChatCall):
    """A call of a custom tool, which takes free text."""

    id: str
    type: Literal["custom"]
    custom: ChatCustomCall


class ChatAnswerMessage(Struct):
    """The message of a choice."""

    role: Literal["assistant"]
    content: str | None
    refusal: None
    annotations: list[None]
    reasoning_content: str | UnsetType = UNSET
    tool_calls: list[ChatCall] | UnsetType = UNSET


ChatFinishReason = Literal["stop", "length", "tool_calls", "content_filter"]


class ChatChoice(Struct):
    """One choice of a chat completion."""

    index: int
    message: ChatAnswerMessage
    logprobs: ChatLogprobs | None
    finish_reason: ChatFinishReason
    token_ids: TokenIds = UNSET


class ChatCompletion(Struct):
    """Body of an answer to a chat request."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    system_fingerprint: str | None
    choices: list[ChatChoice]
    usage: CompletionUsage
    service_tier: ServedTier | UnsetType = UNSET
    prompt_logprobs: PromptLogprobs | UnsetType = UNSET
    prompt_token_ids: TokenIds = UNSET
    timings: Timings | UnsetType = UNSET


class ChatFunctionDelta(Struct, kw_only=True):
    """A piece of a function call; the first piece has the name."""

    name: str | UnsetType = UNSET
    arguments: str


class ChatCustomDelta(Struct, kw_only=True):
    """A piece of a custom tool's input.

    The first piece has the name.
    """

    name: str | UnsetType = UNSET
    input: str


class ChatCallDelta(Struct, kw_only=True):
    """A piece of a tool call.

    The first piece has id and type.
    """

    index: int
    id: str | UnsetType = UNSET
    type: Literal["function", "custom"] | UnsetType = UNSET
    function: ChatFunctionDelta | UnsetType = UNSET
    custom: ChatCustomDelta | UnsetType = UNSET


class ChatDelta(Struct, kw_only=True):
    """A piece of a message."""

    role: Literal["assistant"] | UnsetType = UNSET
    content: str | UnsetType = UNSET
    reasoning_content: str | UnsetType = UNSET
    tool_calls: list[ChatCallDelta] | UnsetType = UNSET


class ChatChunkChoice(Struct):
    """A piece of one choice."""

    index: int
    delta: ChatDelta
    logprobs: ChatLogprobs | None
    finish_reason: ChatFinishReason | None
    token_ids: TokenIds = UNSET


class ChatChunk(Struct):
    """A chunk of a stream.

    With `include_usage` the last one has the usage and no choice; the others have null, or the counts so far.
    """

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    system_fingerprint: str | None
    choices: list[ChatChunkChoice]
    usage: CompletionUsage | UnsetType | None = UNSET
    service_tier: ServedTier | UnsetType = UNSET
    prompt_token_ids: TokenIds = UNSET
    timings: Timings | UnsetType = UNSET
    prompt_progress: PrefillProgress | UnsetType = UNSET
