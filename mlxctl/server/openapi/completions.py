"""What completions answer, whole and in a stream, as types: for the description only, since formatters write
faster than types do.

Tests hold them together: what is answered has every field that is required here, and none that is not here.
"""

from typing import Literal

from msgspec import UNSET, Struct, UnsetType


class CachedTokens(Struct):
    """Tokens of the prompt that were known."""

    cached_tokens: int


class ReasoningTokens(Struct):
    """Tokens of the answer that were thinking."""

    reasoning_tokens: int


class ChatUsage(Struct):
    """Tokens of a completion."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: CachedTokens
    completion_tokens_details: ReasoningTokens


class ScoredCandidate(Struct):
    """A token that was likely."""

    token: str
    bytes: list[int]
    logprob: float


class ScoredToken(ScoredCandidate):
    """A token that was chosen, and the likeliest ones at its place."""

    top_logprobs: list[ScoredCandidate]


class ChatLogprobs(Struct):
    """Log-probabilities of an answer."""

    content: list[ScoredToken]
    refusal: None


class ChatCalledFunction(Struct):
    """What is called; `arguments` is JSON text."""

    name: str
    arguments: str


class ChatCall(Struct, tag_field="type", tag="function"):
    """A call of a function."""

    id: str
    function: ChatCalledFunction


class ChatCalledCustom(Struct):
    """What is called, and the text that it takes."""

    name: str
    input: str


class ChatCustomCall(Struct, tag_field="type", tag="custom"):
    """A call of a tool that takes any text."""

    id: str
    custom: ChatCalledCustom


class ChatAnswerMessage(Struct):
    """What the model said."""

    role: Literal["assistant"]
    content: str | None
    refusal: None
    annotations: list[None]
    reasoning_content: str | UnsetType = UNSET
    tool_calls: list[ChatCall | ChatCustomCall] | UnsetType = UNSET


ChatEnd = Literal["stop", "length", "tool_calls"]


class ChatChoice(Struct):
    """One answer."""

    index: int
    message: ChatAnswerMessage
    logprobs: ChatLogprobs | None
    finish_reason: ChatEnd


class ChatCompletion(Struct):
    """The answers to a conversation."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    system_fingerprint: str | None
    choices: list[ChatChoice]
    usage: ChatUsage


class ChatFunctionDelta(Struct):
    """The name of what is called, then more and more of its arguments."""

    arguments: str
    name: str | UnsetType = UNSET


class ChatCustomDelta(Struct):
    """The name of what is called, then more and more of the text that it takes."""

    input: str
    name: str | UnsetType = UNSET


class ChatCallDelta(Struct):
    """A piece of a call, of a function or of a tool that takes any text; the first one has its id."""

    index: int
    function: ChatFunctionDelta | UnsetType = UNSET
    custom: ChatCustomDelta | UnsetType = UNSET
    id: str | UnsetType = UNSET
    type: Literal["function", "custom"] | UnsetType = UNSET


class ChatDelta(Struct):
    """A piece of an answer."""

    role: Literal["assistant"] | UnsetType = UNSET
    content: str | UnsetType = UNSET
    reasoning_content: str | UnsetType = UNSET
    tool_calls: list[ChatCallDelta] | UnsetType = UNSET


class ChatChunkChoice(Struct):
    """What is new of one answer."""

    index: int
    delta: ChatDelta
    logprobs: ChatLogprobs | None
    finish_reason: ChatEnd | None


class ChatChunk(Struct):
    """What is new of the answers; the last one has the usage and no choice, where the caller asked for it."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    system_fingerprint: str | None
    choices: list[ChatChunkChoice]
    usage: ChatUsage | UnsetType | None = UNSET


class TextLogprobs(Struct):
    """Log-probabilities in four lists, with one place for each token; the first one of an echoed prompt has
    none.
    """

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


class TextChoice(Struct):
    """One continuation."""

    text: str
    index: int
    logprobs: TextLogprobs | None
    finish_reason: Literal["stop", "length"]


class TextCompletion(Struct):
    """The continuations of texts."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    system_fingerprint: str | None
    choices: list[TextChoice]
    usage: ChatUsage


class TextChunkChoice(Struct):
    """What is new of one continuation."""

    text: str
    index: int
    logprobs: TextLogprobs | None
    finish_reason: Literal["stop", "length"] | None


class TextChunk(Struct):
    """What is new of the continuations; the last one has the usage and no choice, where the caller asked for
    it.
    """

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    system_fingerprint: str | None
    choices: list[TextChunkChoice]
    usage: ChatUsage | UnsetType | None = UNSET
