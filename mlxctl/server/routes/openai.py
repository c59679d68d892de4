"""OpenAI's routes: chat completions, completions, embeddings, audio and responses."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

from mlxctl import __version__
from mlxctl.ir import SpeechTask
from mlxctl.protocols import (
    COMPACTION,
    OPENAI,
    OPENAI_EMBEDDINGS,
    PROTOCOLS,
    Encoder,
    GenerationProtocol,
)
from mlxctl.protocols.dialect import TextsRoute
from mlxctl.protocols.openai.chat_answers import ChatChunk, ChatCompletion
from mlxctl.protocols.openai.chat_schema import ChatRequest
from mlxctl.protocols.openai.completions_schema import CompletionRequest, TextChunk, TextCompletion
from mlxctl.protocols.openai.embeddings import parse_embeddings
from mlxctl.protocols.openai.embeddings_schema import EmbeddingList, EmbeddingsRequest
from mlxctl.protocols.openai.errors import OpenAIError
from mlxctl.protocols.openai.lists import Deletion
from mlxctl.protocols.openai.responses.answers import ResponseAnswer
from mlxctl.protocols.openai.responses.compaction import CompactedResponse, TokenCountOfResponse
from mlxctl.protocols.openai.responses.event_schema import RESPONSE_EVENTS
from mlxctl.protocols.openai.responses.item_list import ItemList
from mlxctl.protocols.openai.responses.schema import ResponsesRequest
from mlxctl.protocols.openai.speech_schema import (
    CreateSpeechRequest,
    SpeechAudioDelta,
    SpeechAudioDone,
    VoiceList,
)
from mlxctl.protocols.openai.transcriptions_schema import (
    DiarizedSegment,
    DiarizedTranscription,
    Transcription,
    TranscriptionBody,
    TranscriptionForm,
    TranscriptTextDelta,
    TranscriptTextDone,
    TranslationForm,
    VerboseTranscription,
)
from mlxctl.server.http.route import (
    GENERATION_ERRORS,
    PAGE_AFTER,
    PAGE_LIMIT,
    Operation,
    Query,
    Route,
    RouteContext,
)
from mlxctl.server.http.web_socket import SocketLimits
from mlxctl.server.resources.audio.speech import SpeechResource, VoicesResource
from mlxctl.server.resources.audio.transcriptions import TranscriptionsResource
from mlxctl.server.resources.generation.conversations import ResponseConversations
from mlxctl.server.resources.generation.generation import GenerationResource
from mlxctl.server.resources.generation.responses import (
    CancellationResource,
    InputItemsResource,
    ResponseTokensResource,
    StoredResponseResource,
)
from mlxctl.server.resources.generation.responses_socket import ResponsesSocketResource
from mlxctl.server.resources.realtime.realtime import RealtimeResource
from mlxctl.server.resources.text.embeddings import embeddings_route
from mlxctl.state.installed import version_of

CHAT_EVENTS = (ChatChunk, OpenAIError)
_ORDER = Query(name="order", schema={"type": "string", "enum": ["asc", "desc"]})
_NO_STREAM = Query(name="stream", schema={"type": "string", "enum": ["false"]})
# The packages that compute tokens. mlx-vlm comes with an extra.
_FINGERPRINTED_PACKAGES = ("mlx", "mlx-lm", "mlx-vlm")


@cache
def system_fingerprint() -> str:
    """Return OpenAI's `system_fingerprint`: a digest of the versions that decide about tokens."""
    versions = " ".join((__version__, *(version_of(package) or "-" for package in _FINGERPRINTED_PACKAGES)))
    return f"fp_{hashlib.sha256(versions.encode()).hexdigest()[:12]}"


def _generation(protocol: GenerationProtocol) -> Callable[[RouteContext], object]:
    def create_encoder(shape: Any) -> Encoder:
        # Reading the versions takes time, which the start of the server does not have.
        create: Callable[..., Encoder] = protocol.create_encoder
        return create(shape, system_fingerprint=system_fingerprint())

    def create(context: RouteContext) -> object:
        return GenerationResource(context, replace(protocol, create_encoder=create_encoder))

    return create


def _responses(context: RouteContext, protocol: GenerationProtocol) -> GenerationResource:
    conversations = ResponseConversations(context.services.responses)
    return GenerationResource(context, protocol, conversations=conversations)


def _transcription(
    task: SpeechTask,
    name: str,
    summary: str,
    form: type[Any],
    *,
    body: type[Any] | None = None,
    other_answers: tuple[type[Any], ...] = (VerboseTranscription, str),
    events: tuple[type[Any], ...] = (),
) -> Route:
    def create(context: RouteContext) -> object:
        return TranscriptionsResource(
            context.services.inference, context.open_requests, context.settings, task=task
        )

    operation = Operation(
        method="post",
        summary=summary,
        form=form,
        body=body,
        answer=Transcription,
        other_answers=other_answers,
        events=events,
        errors=GENERATION_ERRORS,
    )
    return Route(
        path=f"/v1/audio/{name}",
        aliases=(f"/audio/{name}",),
        resource=create,
        protocol=OPENAI,
        access="audio",
        operations=(operation,),
    )


ROUTES = (
    Route(
        path="/v1/chat/completions",
        aliases=("/chat/completions",),
        resource=_generation(PROTOCOLS["chat"]),
        protocol=PROTOCOLS["chat"],
        access="generate",
        operations=(
            Operation(
                method="post",
                summary="Create a chat completion (OpenAI)",
                body=ChatRequest,
                answer=ChatCompletion,
                events=CHAT_EVENTS,
                errors=GENERATION_ERRORS,
            ),
        ),
    ),
    Route(
        path="/v1/completions",
        aliases=("/completions",),
        resource=_generation(PROTOCOLS["completions"]),
        protocol=PROTOCOLS["completions"],
        access="generate",
        operations=(
            Operation(
                method="post",
                summary="Create a completion of texts or token ids (OpenAI, legacy)",
                body=CompletionRequest,
                answer=TextCompletion,
                events=(TextChunk, OpenAIError),
                errors=GENERATION_ERRORS,
            ),
        ),
    ),
    embeddings_route(
        TextsRoute(
            path="/v1/embeddings",
            aliases=("/embeddings", "/api/v0/embeddings"),
            summary="Create embeddings (OpenAI)",
            protocol=OPENAI_EMBEDDINGS,
            parse=parse_embeddings,
            body=EmbeddingsRequest,
            answer=EmbeddingList,
        )
    ),
    _transcription(
        "transcribe",
        "transcriptions",
        "Transcribe an audio file (OpenAI)",
        TranscriptionForm,
        body=TranscriptionBody,
        other_answers=(VerboseTranscription, DiarizedTranscription, str),
        events=(TranscriptTextDelta, DiarizedSegment, TranscriptTextDone, OpenAIError),
    ),
    _transcription(
        "translate", "translations", "Translate an audio file to English text (OpenAI)", TranslationForm
    ),
    Route(
        path="/v1/audio/speech",
        aliases=("/audio/speech",),
        resource=lambda context: SpeechResource(
            context.services.inference, context.open_requests, context.settings
        ),
        protocol=OPENAI,
        access="audio",
        operations=(
            Operation(
                method="post",
                summary="Speak a text (OpenAI)",
                body=CreateSpeechRequest,
                answer=bytes,
                events=(SpeechAudioDelta, SpeechAudioDone, OpenAIError),
                errors=GENERATION_ERRORS,
            ),
        ),
    ),
    Route(
        path="/v1/audio/voices",
        aliases=("/audio/voices",),
        resource=lambda context: VoicesResource(context.services.inference),
        protocol=OPENAI,
        access="audio",
        operations=(
            Operation(
                method="get",
                summary="List the voices of the speech models",
                answer=VoiceList,
                query=(Query(name="model", schema={"type": "string"}),),
                errors=(404,),
            ),
        ),
    ),
    Route(
        path="/v1/responses",
        aliases=("/responses",),
        resource=lambda context: ResponsesSocketResource(
            _responses(context, PROTOCOLS["responses"]),
            SocketLimits(max_bytes=context.settings.max_body_bytes),
        ),
        protocol=PROTOCOLS["responses"],
        access="generate",
        operations=(
            Operation(
                method="post",
                summary="Create a response (OpenAI Responses)",
                body=ResponsesRequest,
                answer=ResponseAnswer,
                events=RESPONSE_EVENTS,
                errors=GENERATION_ERRORS,
            ),
            Operation(
                method="get",
                summary="Open a WebSocket for `response.create` messages",
                answer=str,
                status=101,
                errors=(405,),
            ),
        ),
    ),
    Route(
        path="/v1/realtime",
        aliases=("/realtime",),
        resource=lambda context: RealtimeResource(
            context.services.inference, max_bytes=context.settings.max_body_bytes
        ),
        protocol=OPENAI,
        access="audio",
        operations=(
            Operation(
                method="get",
                summary="Open a WebSocket for a spoken conversation (OpenAI Realtime)",
                answer=str,
                query=(
                    Query(name="model", schema={"type": "string"}),
                    Query(name="intent", schema={"type": "string", "enum": ["transcription"]}),
                ),
                status=101,
                errors=(404,),
            ),
        ),
    ),
    Route(
        path="/v1/responses/input_tokens",
        aliases=("/responses/input_tokens",),
        resource=lambda context: ResponseTokensResource(context, _responses(context, PROTOCOLS["responses"])),
        protocol=PROTOCOLS["responses"],
        access="generate",
        operations=(
            Operation(
                method="post",
                summary="Count the tokens of a response's prompt",
                body=ResponsesRequest,
                answer=TokenCountOfResponse,
                errors=GENERATION_ERRORS,
            ),
        ),
    ),
    Route(
        path="/v1/responses/compact",
        aliases=("/responses/compact",),
        resource=lambda context: _responses(context, COMPACTION),
        protocol=PROTOCOLS["responses"],
        access="generate",
        operations=(
            Operation(
                method="post",
                summary="Summarize a conversation to fewer tokens",
                body=ResponsesRequest,
                answer=CompactedResponse,
                errors=GENERATION_ERRORS,
            ),
        ),
    ),
    Route(
        path="/v1/responses/{response_id}",
        resource=lambda context: StoredResponseResource(context.services.responses),
        protocol=OPENAI,
        access="generate",
        operations=(
            Operation(
                method="get",
                summary="Get a stored response",
                answer=ResponseAnswer,
                query=(_NO_STREAM,),
                errors=(404,),
            ),
            Operation(method="delete", summary="Delete a response", answer=Deletion, errors=(404,)),
        ),
    ),
    Route(
        path="/v1/responses/{response_id}/cancel",
        resource=lambda context: CancellationResource(context.services.responses),
        protocol=OPENAI,
        access="generate",
        operations=(
            Operation(
                method="post",
                summary="Always refused: only background responses can be cancelled",
                answer=ResponseAnswer,
                errors=(404,),
            ),
        ),
    ),
    Route(
        path="/v1/responses/{response_id}/input_items",
        resource=lambda context: InputItemsResource(context.services.responses),
        protocol=OPENAI,
        access="generate",
        operations=(
            Operation(
                method="get",
                summary="List the input items of a response",
                answer=ItemList,
                query=(PAGE_LIMIT, _ORDER, PAGE_AFTER),
                errors=(404,),
            ),
        ),
    ),
)
