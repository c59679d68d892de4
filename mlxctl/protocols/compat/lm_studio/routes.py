"""LM Studio's routes that generate text: its own, and OpenAI's with statistics."""

from functools import partial
from typing import Any

from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols.compat.lm_studio import chat, stats
from mlxctl.protocols.dialect import Dialect, GenerationRoute
from mlxctl.protocols.openai.completions_schema import TextChunk
from mlxctl.protocols.openai.errors import OpenAIError, openai_error
from mlxctl.protocols.wire_protocol import GenerationProtocol, Threads


def _unknown_answer(response_id: str) -> InvalidRequest:
    return InvalidRequest(
        f"previous_response_id is {response_id!r}, but no such answer is stored; start a new chat",
        param="previous_response_id",
        code="previous_response_not_found",
    )


def _with_statistics(
    path: str,
    protocol: GenerationProtocol,
    *,
    body: type[Any],
    answer: type[Any],
    chunk: type[Any],
) -> GenerationRoute:
    return GenerationRoute(
        name=f"lm_studio_v0_{path.partition('/')[0]}",
        path=f"/api/v0/{path}",
        summary=f"Create a {path.replace('/', ' ')[:-1]} with statistics (LM Studio)",
        protocol=protocol,
        body=body,
        answer=answer,
        events=(chunk, OpenAIError),
    )


DIALECT = Dialect(
    generation=(
        GenerationRoute(
            name="lm_studio_chat",
            path="/api/v1/chat",
            summary="Answer the next message of a chat (LM Studio)",
            protocol=GenerationProtocol(
                vendor="openai",
                error=OpenAIError,
                render_error=partial(openai_error, prompt_field="input"),
                parse=chat.parse_native_chat,
                parse_with=chat.parse_native_chat_with,
                create_encoder=chat.NativeChatEncoder,
                threads=Threads(kind="lm_studio", unknown=_unknown_answer),
            ),
            body=chat.LMStudioChatRequest,
            answer=chat.LMStudioChatAnswer,
            events=(chat.LMStudioChatEvent,),
        ),
        _with_statistics(
            "chat/completions",
            GenerationProtocol(
                vendor="openai",
                error=OpenAIError,
                render_error=openai_error,
                parse=stats.parse_chat,
                create_encoder=stats.LMStudioChatEncoder,
                describes_model=True,
            ),
            body=stats.LMStudioChatFields,
            answer=stats.LMStudioChatCompletion,
            chunk=stats.LMStudioChatChunk,
        ),
        _with_statistics(
            "completions",
            GenerationProtocol(
                vendor="openai",
                error=OpenAIError,
                render_error=partial(openai_error, prompt_field="prompt"),
                parse=stats.parse_completion,
                create_encoder=stats.LMStudioCompletionEncoder,
                describes_model=True,
            ),
            body=stats.LMStudioCompletionFields,
            answer=stats.LMStudioTextCompletion,
            chunk=TextChunk,
        ),
    ),
    # Below Ollama's paths.
    error_prefixes={"/api/v0/": openai_error, "/api/v1/": openai_error},
)
