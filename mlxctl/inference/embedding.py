"""Texts to vectors, for one request: count, check, hand to the engine. Event-loop thread only."""

from mlxctl.engine import EngineClient
from mlxctl.errors import InvalidRequest
from mlxctl.inference.models.lease import Lease
from mlxctl.inference.preparation import PreparationPool, jobs
from mlxctl.inference.preparation.packed_request import PackedTexts
from mlxctl.inference.request_log import RequestLog
from mlxctl.ir import EmbeddingRequest, EmbeddingResult


async def embed(
    packed: PackedTexts,
    *,
    engine: EngineClient,
    preparation: PreparationPool,
    lease: Lease,
    log: RequestLog,
    request_id: str = "",
) -> EmbeddingResult:
    """Embed with a model that is there. Raises RequestError, CapacityError, EngineError."""
    request = packed.head
    texts = await preparation.run(jobs.prepare_texts, packed, num_bytes=packed.num_bytes, model=lease.name)
    num_tokens = sum(map(len, texts))
    _check(request, most_dimensions=engine.loaded[lease.name].dimensions)
    entry = log.begin(request.model, num_prompt_tokens=num_tokens)
    with entry.until_done():
        vectors = await engine.embed(
            model=lease.name, texts=texts, dimensions=request.dimensions, request_id=request_id
        )
        entry.read(num_tokens, 0)
    return EmbeddingResult(vectors=tuple(vectors), num_prompt_tokens=num_tokens)


def _check(request: EmbeddingRequest, *, most_dimensions: int | None) -> None:
    if (
        request.dimensions is not None
        and most_dimensions is not None
        and request.dimensions > most_dimensions
    ):
        message = f"dimensions is {request.dimensions}, but model {request.model!r} makes vectors of {most_dimensions}"
        raise InvalidRequest(message, param="dimensions")
