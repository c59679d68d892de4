"""Embedding of one request's texts. Event-loop thread only."""

from mlxctl.inference.call_context import CallContext
from mlxctl.inference.preparation import PreparationPool, jobs
from mlxctl.inference.preparation.packed_request import PackedTexts
from mlxctl.inference.request_entry import TokenContent
from mlxctl.inference.request_log import RequestLog
from mlxctl.inference.screening import Screened
from mlxctl.inference.session import ModelSession
from mlxctl.ir import EmbeddingRequest, EmbeddingResult
from mlxctl.ir.errors import InvalidRequest


async def embed(
    texts: Screened[PackedTexts],
    call: CallContext,
    *,
    session: ModelSession,
    preparation: PreparationPool,
    log: RequestLog,
) -> EmbeddingResult:
    """Embed texts with a loaded model. Raises RequestError, CapacityError, EngineError."""
    packed = texts.content
    request = packed.head
    inputs = await preparation.run(jobs.prepare_texts, packed, num_bytes=packed.num_bytes, model=session.name)
    num_tokens = sum(map(len, inputs))
    _check_dimensions(request, max_dimensions=session.loaded.dimensions)
    entry = log.begin(request.model, call, num_prompt_tokens=num_tokens)
    if call.record.keeps_content:
        prompt_ids = [token_id for each in inputs for token_id in each]
        entry.content = TokenContent(
            prompt_ids=prompt_ids, answer_ids=(), bytes_of=session.reader.tokens.bytes_of
        )
    with entry.until_done():
        vectors = await session.embed(
            inputs,
            dimensions=request.dimensions,
            request_id=call.request_id,
            # Counted as they are computed: a client may leave before the last.
            on_tokens=lambda number: entry.prefilled(entry.num_prefilled + number, 0),
        )
    return EmbeddingResult(model=request.model, vectors=tuple(vectors), num_prompt_tokens=num_tokens)


def _check_dimensions(request: EmbeddingRequest, *, max_dimensions: int | None) -> None:
    if request.dimensions is None or max_dimensions is None or request.dimensions <= max_dimensions:
        return
    raise InvalidRequest(
        f"dimensions is {request.dimensions}, but model {request.model!r} makes vectors of {max_dimensions}",
        param="dimensions",
    )
