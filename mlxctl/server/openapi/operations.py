"""Every operation of the server in one table: what it takes, what it answers, and how it refuses."""

from dataclasses import dataclass
from typing import Any, Literal

from mlxctl.models.views import DownloadView, FitView
from mlxctl.protocols.anthropic.messages_schema import CountTokensRequest, MessagesRequest
from mlxctl.protocols.model_list import Model, ModelList
from mlxctl.protocols.openai.agents.objects import Agent, AgentList
from mlxctl.protocols.openai.agents.schema import AgentChange, AgentSpec, AgentTurn
from mlxctl.protocols.openai.chat_schema import ChatRequest
from mlxctl.protocols.openai.completions_schema import CompletionRequest
from mlxctl.protocols.openai.embeddings_schema import EmbeddingsRequest
from mlxctl.protocols.openai.responses.schema import ResponsesRequest
from mlxctl.protocols.openai.transcriptions_schema import TranscriptionForm, TranslationForm
from mlxctl.server.cache import MAX_EXPLAINED, MAX_PAGE_CHUNKS, CacheKeys, CacheQuestion
from mlxctl.server.cache_answers import CacheChanged, ChunkPage, Explanations
from mlxctl.server.health import Greeting, Health, Readiness
from mlxctl.server.library import DownloadList, DownloadRequest, LibraryList
from mlxctl.server.model_admin import ModelChoice, ModelStanding
from mlxctl.server.openapi.completions import ChatChunk, ChatCompletion, TextChunk, TextCompletion
from mlxctl.server.openapi.embeddings import EmbeddingList
from mlxctl.server.openapi.errors import OpenAIError
from mlxctl.server.openapi.lists import AgentMessageList, Deletion, Document, ItemList
from mlxctl.server.openapi.messages import MESSAGE_EVENTS, AnthropicMessage, TokenCount
from mlxctl.server.openapi.responses import RESPONSE_EVENTS, ResponseAnswer
from mlxctl.server.openapi.transcriptions import Transcription, VerboseTranscription
from mlxctl.server.stats import RequestList, ServerStats

Dialect = Literal["openai", "anthropic", "either"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A parameter in the address; `schema` is JSON schema."""

    name: str
    schema: dict[str, Any]
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of one route; names in braces in the path are parameters.

    An answer of type `str` is text, any other JSON.

    Beside `answer` there may be `other_answers`. The body is JSON, or of a `form` its fields.

    `events` are what a stream of it may say, nothing where it does not stream. `errors` are the statuses of
    refusals beside those that any request may get, in the error shape of `dialect`.
    """

    method: Literal["get", "post", "patch", "delete"]
    path: str
    summary: str
    answer: type[Any]
    body: type[Any] | None = None
    form: type[Any] | None = None
    other_answers: tuple[type[Any], ...] = ()
    query: tuple[Query, ...] = ()
    status: int = 200
    events: tuple[type[Any], ...] = ()
    dialect: Dialect = "openai"
    errors: tuple[int, ...] = ()


_CHAT_EVENTS = (ChatChunk, OpenAIError)
_GENERATES = (404, 500, 503, 504)
_LIMIT = Query(name="limit", schema={"type": "integer", "minimum": 1, "maximum": 100})
_ORDER = Query(name="order", schema={"type": "string", "enum": ["asc", "desc"]})
_AFTER = Query(name="after", schema={"type": "string"})
_NO_STREAM = Query(name="stream", schema={"type": "string", "enum": ["false"]})
_OFFSET = Query(name="offset", schema={"type": "integer", "minimum": 0})
_CHUNKS = Query(name="limit", schema={"type": "integer", "minimum": 1, "maximum": MAX_PAGE_CHUNKS})
_TOKENS = Query(name="tokens", schema={"type": "boolean"})
_LAST = Query(name="last", schema={"type": "integer", "minimum": 1, "maximum": MAX_EXPLAINED})
_MODEL = Query(name="model", schema={"type": "string"}, required=True)
_CONTEXT = Query(name="context", schema={"type": "integer", "minimum": 1, "maximum": 1 << 27})


def _get(
    path: str, summary: str, answer: type[Any], *query: Query, errors: tuple[int, ...] = ()
) -> Operation:
    """Return a look at something that belongs to no protocol."""
    return Operation(
        method="get", path=path, summary=summary, answer=answer, query=query, dialect="either", errors=errors
    )


def _act(verb: str, summary: str) -> Operation:
    """Return something that is done with a model by hand."""
    return Operation(
        method="post",
        path=f"/models/{verb}",
        summary=summary,
        body=ModelChoice,
        answer=ModelStanding,
        dialect="either",
        errors=(404, 500, 503, 529),
    )


OPERATIONS = (
    Operation(
        method="post",
        path="/v1/chat/completions",
        summary="Create a chat completion (OpenAI)",
        body=ChatRequest,
        answer=ChatCompletion,
        events=_CHAT_EVENTS,
        errors=_GENERATES,
    ),
    Operation(
        method="post",
        path="/v1/completions",
        summary="Create a completion of texts or token ids (OpenAI, legacy)",
        body=CompletionRequest,
        answer=TextCompletion,
        events=(TextChunk, OpenAIError),
        errors=_GENERATES,
    ),
    Operation(
        method="post",
        path="/v1/embeddings",
        summary="Create embeddings (OpenAI)",
        body=EmbeddingsRequest,
        answer=EmbeddingList,
        errors=_GENERATES,
    ),
    *(
        Operation(
            method="post",
            path=f"/v1/audio/{name}",
            summary=summary,
            form=form,
            answer=Transcription,
            other_answers=(VerboseTranscription, str),
            errors=_GENERATES,
        )
        for name, summary, form in (
            ("transcriptions", "Transcribe an audio file (OpenAI)", TranscriptionForm),
            ("translations", "Translate an audio file to English text (OpenAI)", TranslationForm),
        )
    ),
    Operation(
        method="post",
        path="/v1/responses",
        summary="Create a response (OpenAI Responses)",
        body=ResponsesRequest,
        answer=ResponseAnswer,
        events=RESPONSE_EVENTS,
        errors=_GENERATES,
    ),
    Operation(
        method="get",
        path="/v1/responses/{response_id}",
        summary="Get a stored response",
        answer=ResponseAnswer,
        query=(_NO_STREAM,),
        errors=(404,),
    ),
    Operation(
        method="delete",
        path="/v1/responses/{response_id}",
        summary="Delete a response",
        answer=Deletion,
        errors=(404,),
    ),
    Operation(
        method="post",
        path="/v1/responses/{response_id}/cancel",
        summary="Always refused: only background responses can be canceled",
        answer=ResponseAnswer,
        errors=(404,),
    ),
    Operation(
        method="get",
        path="/v1/responses/{response_id}/input_items",
        summary="List the input items of a response",
        answer=ItemList,
        query=(_LIMIT, _ORDER, _AFTER),
        errors=(404,),
    ),
    Operation(
        method="get", path="/v1/agents", summary="List agents", answer=AgentList, query=(_LIMIT, _AFTER)
    ),
    Operation(
        method="post",
        path="/v1/agents",
        summary="Create an agent, whose conversation the server keeps",
        body=AgentSpec,
        answer=Agent,
        status=201,
        errors=(409,),
    ),
    Operation(
        method="get", path="/v1/agents/{agent_id}", summary="Get an agent", answer=Agent, errors=(404,)
    ),
    Operation(
        method="patch",
        path="/v1/agents/{agent_id}",
        summary="Change an agent, from its next turn on",
        body=AgentChange,
        answer=Agent,
        errors=(404,),
    ),
    Operation(
        method="delete",
        path="/v1/agents/{agent_id}",
        summary="Delete an agent",
        answer=Deletion,
        errors=(404,),
    ),
    Operation(
        method="get",
        path="/v1/agents/{agent_id}/messages",
        summary="List the messages of an agent",
        answer=AgentMessageList,
        query=(_LIMIT, _AFTER),
        errors=(404,),
    ),
    Operation(
        method="post",
        path="/v1/agents/{agent_id}/reset",
        summary="Delete an agent's messages",
        answer=Agent,
        errors=(404,),
    ),
    Operation(
        method="post",
        path="/v1/agents/{agent_id}/generate",
        summary="Continue an agent's conversation with new messages",
        body=AgentTurn,
        answer=ChatCompletion,
        events=_CHAT_EVENTS,
        errors=(*_GENERATES, 409),
    ),
    Operation(
        method="post",
        path="/v1/messages",
        summary="Create a message (Anthropic)",
        dialect="anthropic",
        body=MessagesRequest,
        answer=AnthropicMessage,
        events=MESSAGE_EVENTS,
        errors=(*_GENERATES, 529),
    ),
    Operation(
        method="post",
        path="/v1/messages/count_tokens",
        summary="Count the tokens of a prompt (Anthropic)",
        dialect="anthropic",
        body=CountTokensRequest,
        answer=TokenCount,
        errors=(404, 500, 503),
    ),
    _get("/v1/models", "List the served models", ModelList),
    _get("/v1/models/{name}", "Get a served model", Model, errors=(404,)),
    _act("load", "Load a model"),
    _act("unload", "Unload a model"),
    _act("pin", "Pin a model in memory"),
    _act("unpin", "Allow a pinned model to be unloaded"),
    _get("/library", "List the models on this machine", LibraryList),
    _get("/downloads", "List this server's downloads", DownloadList),
    _get("/fit", "Estimate whether a model fits this machine", FitView, _MODEL, _CONTEXT, errors=(404,)),
    _get(
        "/cache",
        "List the chunks of the prefix cache, in pages",
        ChunkPage,
        _OFFSET,
        _CHUNKS,
        _TOKENS,
        errors=(500, 503),
    ),
    *(
        Operation(
            method="post",
            path=f"/cache/{action}",
            summary=summary,
            body=body,
            answer=CacheChanged,
            dialect="either",
            errors=(500, 503),
        )
        for action, summary, body in (
            ("pin", "Pin prefixes: protect them from eviction", CacheKeys),
            ("unpin", "Unpin prefixes", CacheKeys),
            ("drop", "Delete prefixes and everything that extends them", CacheKeys),
            ("clear", "Delete every prefix that is neither in use nor pinned", None),
            ("gc", "Delete expired prefixes", None),
        )
    ),
    _get(
        "/cache/explain",
        "Explain the cache hits and misses of recent requests",
        Explanations,
        _LAST,
        errors=(500, 503),
    ),
    Operation(
        method="post",
        path="/cache/explain",
        summary="Explain how much of a request would hit the cache",
        body=CacheQuestion,
        answer=Explanations,
        dialect="either",
        errors=_GENERATES,
    ),
    _get("/stats", "Get the engine's counters and memory figures", ServerStats, errors=(500, 503)),
    _get("/requests", "List open and recent requests", RequestList),
    _get("/metrics", "Get metrics in the Prometheus text format", str),
    _get("/health", "Get the server's status", Health),
    _get("/readyz", "Check readiness: 200 when requests are accepted", Readiness, errors=(503,)),
    _get("/livez", "Check liveness", Greeting),
    _get("/api/hello", "Check liveness", Greeting),
    _get("/", "Check liveness", Greeting),
    _get("/openapi.json", "Get this OpenAPI document", Document),
)

DOWNLOAD = Operation(
    method="post",
    path="/downloads",
    summary="Download a model",
    body=DownloadRequest,
    answer=DownloadView,
    status=202,
    dialect="either",
    errors=(503,),
)
"""Only where the settings allow it."""
