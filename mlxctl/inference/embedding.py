"""Texts to vectors, for one request: count, check, hand to the engine. Event-loop thread only."""

from mlxctl.adapters import ModelAdapter
from mlxctl.engine import EngineClient, Lease
from mlxctl.errors import InvalidRequest
from mlxctl.inference import preparing
from mlxctl.inference.request_log import RequestLog
from mlxctl.ir import EmbeddingRequest, EmbeddingResult

MAX_TOKENS = 300_000
"""The most tokens that the texts of one request may have together; OpenAI's limit."""


async def embed(
    request: EmbeddingRequest, *, engine: EngineClient, adapter: ModelAdapter, lease: Lease, log: RequestLog
) -> EmbeddingResult:
    """Embed with a model that is there. Raises RequestError, CapacityError, EngineError."""
    texts = await preparing.prepare_texts(adapter, request)
    num_tokens = sum(map(len, texts))
    _check(request, num_tokens=num_tokens, most_dimensions=engine.loaded[lease.name].dimensions)
    entry = log.begin(request.model, num_prompt_tokens=num_tokens)
    with entry.until_done():
        vectors = await engine.embed(model=lease.name, texts=texts, dimensions=request.dimensions)
        entry.read(num_tokens, 0)
    return EmbeddingResult(vectors=tuple(vectors), num_prompt_tokens=num_tokens)


def _check(request: EmbeddingRequest, *, num_tokens: int, most_dimensions: int | None) -> None:
    if num_tokens > MAX_TOKENS:
        message = f"input has {num_tokens} tokens; a request may have {MAX_TOKENS}; send fewer texts at once"
        raise InvalidRequest(message, param="input")
    if request.dimensions is not None and most_dimensions is not None and request.dimensions > most_dimensions:
        message = f"dimensions is {request.dimensions}, but model {request.model!r} makes vectors of {most_dimensions}"
        raise InvalidRequest(message, param="dimensions")
