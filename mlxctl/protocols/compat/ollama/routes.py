"""Ollama's routes that generate text or compute vectors."""

from typing import Any

from mlxctl.protocols.compat.ollama import encode, schema
from mlxctl.protocols.dialect import Dialect, GenerationRoute, TextsRoute
from mlxctl.protocols.wire_protocol import NDJSON, GenerationProtocol, WireProtocol

_ERRORS: dict[str, Any] = {
    "vendor": "ollama",
    "error": schema.OllamaError,
    "render_error": encode.ollama_error,
}
OLLAMA = WireProtocol(**_ERRORS)


def _generation(name: str, summary: str, parse: Any, body: type[Any], answer: type[Any]) -> GenerationRoute:
    return GenerationRoute(
        name=f"ollama_{name}",
        path=f"/api/{name}",
        summary=summary,
        protocol=GenerationProtocol(
            **_ERRORS,
            parse=parse,
            create_encoder=encode.OllamaEncoder,
            stream_media_type=NDJSON,
            encode_loaded=encode.encode_loaded,
        ),
        body=body,
        answer=answer,
        events=(answer, schema.OllamaError),
    )


DIALECT = Dialect(
    generation=(
        _generation(
            "chat",
            "Create a chat answer (Ollama)",
            encode.parse_chat,
            schema.OllamaChatRequest,
            schema.OllamaChatAnswer,
        ),
        _generation(
            "generate",
            "Continue a prompt (Ollama)",
            encode.parse_generate,
            schema.OllamaGenerateRequest,
            schema.OllamaGenerateAnswer,
        ),
    ),
    texts=(
        TextsRoute(
            path="/api/embed",
            summary="Create embeddings (Ollama)",
            protocol=OLLAMA,
            parse=encode.parse_embed,
            body=schema.OllamaEmbedRequest,
            answer=schema.OllamaEmbeddings,
        ),
        TextsRoute(
            path="/api/embeddings",
            summary="Create the embedding of one text (Ollama, earlier route)",
            protocol=OLLAMA,
            parse=encode.parse_old_embed,
            body=schema.OllamaOldEmbedRequest,
            answer=schema.OllamaOldEmbedding,
        ),
    ),
    error_prefixes={"/api/": encode.ollama_error},
)
