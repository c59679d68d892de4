"""llama.cpp's routes that generate text or compute vectors."""

from typing import Any

from mlxctl.protocols.compat.llama_cpp import embeddings, encode, schema
from mlxctl.protocols.compat.llama_cpp.errors import LlamaError, llama_error
from mlxctl.protocols.dialect import Dialect, GenerationRoute, TextsRoute
from mlxctl.protocols.wire_protocol import GenerationProtocol, WireProtocol

_ERRORS: dict[str, Any] = {"vendor": "llama_cpp", "error": LlamaError, "render_error": llama_error}
LLAMA_CPP = WireProtocol(**_ERRORS)


def _generation(name: str, summary: str, parse: Any, body: type[Any]) -> GenerationRoute:
    return GenerationRoute(
        name=f"llama_{name}",
        path=f"/{name}",
        summary=summary,
        protocol=GenerationProtocol(**_ERRORS, parse=parse, create_encoder=encode.LlamaEncoder),
        body=body,
        answer=schema.LlamaCompletion,
        other_answers=(list[schema.LlamaCompletion],),
        events=(schema.LlamaCompletion, LlamaError),
    )


DIALECT = Dialect(
    generation=(
        _generation(
            "completion",
            "Continue a prompt (llama.cpp)",
            encode.parse_completion,
            schema.LlamaCompletionRequest,
        ),
        _generation(
            "infill",
            "Fill in the text between a prefix and a suffix (llama.cpp)",
            encode.parse_infill,
            schema.LlamaInfillRequest,
        ),
    ),
    texts=(
        TextsRoute(
            path="/embedding",
            summary="Create embeddings (llama.cpp)",
            protocol=LLAMA_CPP,
            parse=embeddings.parse_embeddings,
            body=embeddings.LlamaEmbeddingRequest,
            answer=list[embeddings.LlamaEmbedding],
        ),
    ),
)
