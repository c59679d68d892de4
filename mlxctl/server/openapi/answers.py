"""What is answered, as types: only for the description, the formatters write faster than any type could. Tests hold them together.

Fields that every answer has are required here; an answer may have more.
"""

from typing import Any, Literal

from msgspec import Struct


class OpenAIErrorFacts(Struct):
    """What went wrong, and in which field."""

    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIError(Struct):
    """An error in OpenAI's words."""

    error: OpenAIErrorFacts


class AnthropicErrorFacts(Struct):
    """What went wrong."""

    type: str
    message: str


class AnthropicError(Struct):
    """An error in Anthropic's words."""

    type: Literal["error"]
    error: AnthropicErrorFacts
    request_id: str | None


class ChatUsage(Struct):
    """Tokens of a completion."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: dict[str, int]
    completion_tokens_details: dict[str, int]


class ChatCalledFunction(Struct):
    """What is called; `arguments` is JSON text."""

    name: str
    arguments: str


class ChatCall(Struct):
    """A call of a tool."""

    id: str
    type: Literal["function"]
    function: ChatCalledFunction


class ChatAnswerMessage(Struct):
    """What the model said."""

    role: Literal["assistant"]
    content: str | None
    refusal: None
    reasoning_content: str = ""
    tool_calls: list[ChatCall] = []


class ChatChoice(Struct):
    """One answer."""

    index: int
    message: ChatAnswerMessage
    logprobs: dict[str, Any] | None
    finish_reason: Literal["stop", "length", "tool_calls"]


class ChatCompletion(Struct):
    """The answers to a conversation."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    system_fingerprint: str | None
    choices: list[ChatChoice]
    usage: ChatUsage


class TextChoice(Struct):
    """One continuation."""

    text: str
    index: int
    logprobs: dict[str, Any] | None
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


class EmbeddingUsage(Struct):
    """Tokens of texts."""

    prompt_tokens: int
    total_tokens: int


class Embedding(Struct):
    """The vector of one text, as numbers or as base64 of little-endian float32."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class EmbeddingList(Struct):
    """A vector for each text, in order."""

    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: EmbeddingUsage


class ResponseUsage(Struct):
    """Tokens of a response."""

    input_tokens: int
    input_tokens_details: dict[str, int]
    output_tokens: int
    output_tokens_details: dict[str, int]
    total_tokens: int


class ResponseAnswer(Struct):
    """A response, with the settings that it was made with."""

    id: str
    object: Literal["response"]
    created_at: int
    status: Literal["completed", "incomplete", "failed", "in_progress"]
    model: str
    output: list[dict[str, Any]]
    error: dict[str, Any] | None
    incomplete_details: dict[str, Any] | None
    instructions: Any
    previous_response_id: str | None
    store: bool
    tools: list[dict[str, Any]]
    usage: ResponseUsage | None


class ItemList(Struct):
    """A page of a list."""

    object: Literal["list"]
    data: list[dict[str, Any]]
    first_id: str | None
    last_id: str | None
    has_more: bool


class Deletion(Struct):
    """Something is gone."""

    id: str
    object: Literal["response", "agent"]
    deleted: Literal[True]


class AnthropicUsage(Struct):
    """Tokens of a message; what the cache had is not part of `input_tokens`."""

    input_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int
    output_tokens: int


class AnthropicMessage(Struct):
    """What the model said, in blocks."""

    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[dict[str, Any]]
    stop_reason: Literal["end_turn", "stop_sequence", "max_tokens", "tool_use"]
    stop_sequence: str | None
    usage: AnthropicUsage


class TokenCount(Struct):
    """How long a prompt is."""

    input_tokens: int


class AgentAnswer(Struct):
    """An agent, and how much of its context is computed already; null is what is not known now. Times are unix seconds."""

    id: str
    object: Literal["agent"]
    created_at: int
    last_access_at: int
    model: str
    instructions: str | None
    tools: list[dict[str, Any]] | None
    context_overflow: Literal["error", "drop_oldest"]
    metadata: dict[str, str] | None
    num_messages: int
    status: Literal["hot", "warm", "cold"]
    context_tokens: int | None
    cached_tokens: int | None


class AgentAnswerPage(Struct):
    """A page of agents."""

    object: Literal["list"]
    data: list[AgentAnswer]
    first_id: str | None
    last_id: str | None
    has_more: bool


class ModelAnswer(Struct):
    """A model, with the fields of OpenAI's and of Anthropic's clients."""

    id: str
    object: Literal["model"]
    type: Literal["model"]
    created: int
    created_at: str
    owned_by: str
    display_name: str
    max_input_tokens: int | None
    supports_tools: bool
    state: Literal["loaded", "loading", "not_loaded", "failed"]
    problem: str | None
    pinned: bool


class ModelAnswerList(Struct):
    """All models."""

    object: Literal["list"]
    data: list[ModelAnswer]
    has_more: bool
    first_id: str | None
    last_id: str | None


class ModelState(Struct):
    """How a model is now."""

    model: str
    state: Literal["loaded", "loading", "not_loaded", "failed"]
    pinned: bool


class Greeting(Struct):
    """Who is here."""

    name: str
    version: str


class Readiness(Struct):
    """Requests are taken."""

    status: Literal["ready"]


class Health(Struct):
    """How the server is; callers without the key learn no more."""

    status: str
    version: str


class Facts(Struct):
    """Named facts and counters, for people and monitors."""
