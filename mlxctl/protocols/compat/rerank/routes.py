"""The routes of reranking (Jina, vLLM, Cohere, Voyage, Text Embeddings Inference)."""

from functools import partial

from mlxctl.protocols.compat.rerank import encode
from mlxctl.protocols.dialect import Dialect, TextsRoute
from mlxctl.protocols.openai.errors import OpenAIError, openai_error
from mlxctl.protocols.wire_protocol import WireProtocol

_RERANK = WireProtocol(
    vendor="openai",
    error=OpenAIError,
    render_error=partial(openai_error, prompt_field="documents", has_detail=True),
)
_COHERE = WireProtocol(vendor="cohere", error=encode.CohereError, render_error=encode.cohere_error)


def _rerank(path: str, summary: str, *aliases: str, protocol: WireProtocol, is_cohere: bool) -> TextsRoute:
    return TextsRoute(
        path=path,
        aliases=aliases,
        summary=summary,
        protocol=protocol,
        parse=partial(encode.parse_rerank, repeats_documents=not is_cohere, cuts_documents=is_cohere),
        body=encode.RerankRequest,
        answer=encode.RerankAnswer,
        other_answers=(encode.VoyageRanking, list[encode.TextScore]),
        reranks=True,
    )


DIALECT = Dialect(
    texts=(
        _rerank(
            "/v1/rerank",
            "Order documents by relevance (Jina, vLLM, llama.cpp, Voyage, Text Embeddings Inference)",
            "/rerank",
            "/v1/reranking",
            "/reranking",
            protocol=_RERANK,
            is_cohere=False,
        ),
        _rerank("/v2/rerank", "Order documents by relevance (Cohere)", protocol=_COHERE, is_cohere=True),
    ),
)
