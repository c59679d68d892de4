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
    """One method of one route; names in braces in the path are parameters. An answer of type `str` is text, any other JSON.

    Beside `answer` there may be `other_answers`. The body is JSON, or of a `form` its fields.

    `events` are what a stream of it may say, nothing where it does not stream. `errors` are the statuses of refusals beside those
    that any request may get, in the error shape of `dialect`.
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


def _get(path: str, summary: str, answer: type[Any], *query: Query, errors: tuple[int, ...] = ()) -> Operation:
    """Return a look at something that belongs to no protocol."""
    return Operation(method="get", path=path, summary=summary, answer=answer, query=query, dialect="either", errors=errors)


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
        summary="Go on with a conversation (OpenAI chat completions)",
        body=ChatRequest,
        answer=ChatCompletion,
        events=_CHAT_EVENTS,
        errors=_GENERATES,
    ),
    Operation(
        method="post",
        path="/v1/completions",
        summary="Go on with texts or token ids (OpenAI legacy completions)",
        body=CompletionRequest,
        answer=TextCompletion,
        events=(TextChunk, OpenAIError),
        errors=_GENERATES,
    ),
    Operation(
        method="post",
        path="/v1/embeddings",
        summary="Make vectors of texts (OpenAI embeddings)",
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
            ("transcriptions", "Write down what is said in a sound file (OpenAI transcriptions)", TranscriptionForm),
            ("translations", "Write down in English what is said in a sound file (OpenAI translations)", TranslationForm),
        )
    ),
    Operation(
        method="post",
        path="/v1/responses",
        summary="Make a response (OpenAI Responses)",
        body=ResponsesRequest,
        answer=ResponseAnswer,
        events=RESPONSE_EVENTS,
        errors=_GENERATES,
    ),
    Operation(
        method="get",
        path="/v1/responses/{response_id}",
        summary="Give a response that is kept",
        answer=ResponseAnswer,
        query=(_NO_STREAM,),
        errors=(404,),
    ),
    Operation(method="delete", path="/v1/responses/{response_id}", summary="Forget a response", answer=Deletion, errors=(404,)),
    Operation(
        method="post",
        path="/v1/responses/{response_id}/cancel",
        summary="Refused: only background responses can be cancelled",
        answer=ResponseAnswer,
        errors=(404,),
    ),
    Operation(
        method="get",
        path="/v1/responses/{response_id}/input_items",
        summary="List what led to a response",
        answer=ItemList,
        query=(_LIMIT, _ORDER, _AFTER),
        errors=(404,),
    ),
    Operation(method="get", path="/v1/agents", summary="List agents", answer=AgentList, query=(_LIMIT, _AFTER)),
    Operation(
        method="post",
        path="/v1/agents",
        summary="Make an agent, whose conversation is kept here",
        body=AgentSpec,
        answer=Agent,
        status=201,
        errors=(409,),
    ),
    Operation(method="get", path="/v1/agents/{agent_id}", summary="Look at an agent", answer=Agent, errors=(404,)),
    Operation(
        method="patch",
        path="/v1/agents/{agent_id}",
        summary="Change an agent from its next turn on",
        body=AgentChange,
        answer=Agent,
        errors=(404,),
    ),
    Operation(method="delete", path="/v1/agents/{agent_id}", summary="Forget an agent", answer=Deletion, errors=(404,)),
    Operation(
        method="get",
        path="/v1/agents/{agent_id}/messages",
        summary="List what was said",
        answer=AgentMessageList,
        query=(_LIMIT, _AFTER),
        errors=(404,),
    ),
    Operation(method="post", path="/v1/agents/{agent_id}/reset", summary="Forget what was said", answer=Agent, errors=(404,)),
    Operation(
        method="post",
        path="/v1/agents/{agent_id}/generate",
        summary="Go on with an agent's conversation, from new messages only",
        body=AgentTurn,
        answer=ChatCompletion,
        events=_CHAT_EVENTS,
        errors=(*_GENERATES, 409),
    ),
    Operation(
        method="post",
        path="/v1/messages",
        summary="Go on with a conversation (Anthropic messages)",
        dialect="anthropic",
        body=MessagesRequest,
        answer=AnthropicMessage,
        events=MESSAGE_EVENTS,
        errors=(*_GENERATES, 529),
    ),
    Operation(
        method="post",
        path="/v1/messages/count_tokens",
        summary="Count the tokens of a prompt",
        dialect="anthropic",
        body=CountTokensRequest,
        answer=TokenCount,
        errors=(404, 500, 503),
    ),
    _get("/v1/models", "List the models that are served", ModelList),
    _get("/v1/models/{name}", "Describe a model", Model, errors=(404,)),
    _act("load", "Load a model"),
    _act("unload", "Let go of a model"),
    _act("pin", "Keep a model in memory"),
    _act("unpin", "Let a model go when room is needed"),
    _get("/library", "List the models on this machine", LibraryList),
    _get("/downloads", "List the downloads of this server", DownloadList),
    _get("/fit", "Say whether a model fits this machine", FitView, _MODEL, _CONTEXT, errors=(404,)),
    _get("/cache", "List what the prefix cache holds, in pages", ChunkPage, _OFFSET, _CHUNKS, _TOKENS, errors=(500, 503)),
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
            ("pin", "Keep prefixes whatever the budget", CacheKeys),
            ("unpin", "Let pinned prefixes go when room is needed", CacheKeys),
            ("drop", "Forget prefixes with all that builds on them", CacheKeys),
            ("clear", "Forget every prefix that is neither in use nor pinned", None),
            ("gc", "Forget prefixes that have outlived their time", None),
        )
    ),
    _get("/cache/explain", "Explain how much of the last requests was known", Explanations, _LAST, errors=(500, 503)),
    Operation(
        method="post",
        path="/cache/explain",
        summary="Explain how much of a request would be known",
        body=CacheQuestion,
        answer=Explanations,
        dialect="either",
        errors=_GENERATES,
    ),
    _get("/stats", "Count what the engine has done and holds", ServerStats, errors=(500, 503)),
    _get("/requests", "List open and recent requests", RequestList),
    _get("/metrics", "Count and measure for Prometheus", str),
    _get("/health", "Tell how the server is", Health),
    _get("/readyz", "Say whether requests are taken", Readiness, errors=(503,)),
    _get("/livez", "Say who is here", Greeting),
    _get("/api/hello", "Say who is here", Greeting),
    _get("/", "Say who is here", Greeting),
    _get("/openapi.json", "Describe all this", Document),
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
