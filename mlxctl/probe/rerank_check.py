"""Test of a cross-encoder: its scores of matching and other documents."""

import math
from collections.abc import Sequence

from mlxctl.ir import ModelCapabilities, ProbeVerdict
from mlxctl.probe.interview import Interview
from mlxctl.probe.questions import RERANKING_PAIRS
from mlxctl.state.stores import Exchange, Finding

# In half precision, scores differ slightly between batch and single pair; leaking padding changes them more.
# Relative for logits above 1.
_SAME_SCORE = 0.02


async def check_reranking(interview: Interview, known: ModelCapabilities) -> tuple[Finding, ...]:  # noqa: ARG001
    """Score every query with every document, in batches and singly."""
    adapter = interview.adapter()
    documents = [document for _, document in RERANKING_PAIRS]
    scores: list[list[float]] = []
    exchanges: list[Exchange] = []
    for query, _ in RERANKING_PAIRS:
        pairs = [adapter.prepare_pair(query, document) for document in documents]
        vectors = await interview.embed(pairs)
        scores.append([vector.numbers[0] for vector in vectors])
        exchanges += [
            Exchange(
                prompt=f"query: {query}\ndocument: {document}",
                output=f"score {vector.numbers[0]:.4f}",
                num_tokens=vector.num_tokens,
                duration_seconds=round(vector.duration_seconds, 3),
            )
            for vector, document in zip(vectors, documents, strict=True)
        ]
    alone = [(await interview.embed([pair]))[0].numbers[0] for pair in pairs]
    verdict, reason = judge(scores, alone)
    return (
        Finding(
            question="reranking",
            verdict=verdict,
            reason=reason,
            value={"scores": [[round(score, 4) for score in row] for row in scores]},
            exchanges=tuple(exchanges),
        ),
    )


def judge(scores: Sequence[Sequence[float]], alone: Sequence[float]) -> tuple[ProbeVerdict, str]:
    """Return the verdict for the scores of all pairs.

    `scores` has a row for each query, with all documents in order. The document at a query's own position
    matches it. `alone` are the last query's scores, pair by pair.
    """
    if not all(map(math.isfinite, [*alone, *(score for row in scores for score in row)])):
        return "no", "its scores contain values that are not numbers"
    for together, single in zip(scores[-1], alone, strict=True):
        if abs(together - single) > _SAME_SCORE * max(1.0, abs(single)):
            return "no", f"a pair has another score in a batch than alone ({together:.3f}, not {single:.3f})"
    num_right = sum(row.index(max(row)) == position for position, row in enumerate(scores))
    reason = f"it scores pairs: the matching document came first for {num_right} queries of {len(scores)}"
    return ("yes" if num_right == len(scores) else "no"), reason
