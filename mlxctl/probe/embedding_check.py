"""Test of embeddings: dimensions, norm, batch stability and maximum length."""

import math
import operator
from collections.abc import Sequence
from itertools import combinations

from mlxctl.ir import ModelCapabilities
from mlxctl.ir.errors import EngineError
from mlxctl.probe.interview import Interview, ProbeVector
from mlxctl.probe.questions import EMBEDDING_TEXTS
from mlxctl.state.stores import Finding

# In half precision, vectors differ slightly between batch and single text; leaking padding changes them more.
_SAME_COSINE = 0.995
_UNIT_TOLERANCE = 1e-3
# Attempts, each with half the length, before the maximum length is unknown.
_MAX_HALVINGS = 6


async def check_embeddings(interview: Interview, known: ModelCapabilities) -> tuple[Finding, ...]:  # noqa: ARG001
    """Embed texts singly, in a batch, and one of maximum length."""
    texts = [interview.adapter().prepare_embedding(text, "input") for text in EMBEDDING_TEXTS]
    alone = [(await interview.embed([text]))[0] for text in texts]
    together = await interview.embed(texts)
    flaw = find_flaw([vector.numbers for vector in alone], [vector.numbers for vector in together])
    exchanges = tuple(vector.evidence(text) for vector, text in zip(together, EMBEDDING_TEXTS, strict=True))
    if flaw is not None:
        return (Finding(question="embeddings", verdict="no", reason=flaw, exchanges=exchanges),)
    norms = [math.hypot(*vector.numbers) for vector in alone]
    is_normalized = all(abs(norm - 1) < _UNIT_TOLERANCE for norm in norms)
    longest, evidence = await _longest(interview)
    recipe = interview.facts.embedding
    assert recipe is not None, "only embedding models are probed for vectors"
    num_dimensions = len(alone[0].numbers)
    length = f"length {norms[0]:.3f}" if is_normalized else f"lengths {min(norms):.3f} to {max(norms):.3f}"
    limit = "no long text could be embedded" if longest is None else f"{longest:,} tokens at once"
    return (
        Finding(
            question="embeddings",
            verdict="yes",
            reason=f"{num_dimensions} dimensions, {'normalized' if is_normalized else 'not normalized'} "
            f"({length}), {limit}",
            value={
                "dimensions": num_dimensions,
                "normalized": is_normalized,
                "max_length": longest,
                "pooling": list(recipe.pooling),
            },
            exchanges=(
                *exchanges,
                *([evidence.evidence(f"{longest} times the same token")] if evidence else []),
            ),
        ),
    )


def find_flaw(alone: Sequence[Sequence[float]], together: Sequence[Sequence[float]]) -> str | None:
    """Return the first flaw in single and batched vectors, or None."""
    if not all(math.isfinite(number) for vector in (*alone, *together) for number in vector):
        return "its vectors contain values that are not numbers"
    if not all(any(vector) for vector in alone):
        return "its vectors are empty: every number is zero"
    if any(_cosine(one, other) > 1 - 1e-6 for one, other in combinations(alone, 2)):
        return "different texts have the same vector"
    cosine = min(_cosine(one, other) for one, other in zip(alone, together, strict=True))
    return (
        None
        if cosine >= _SAME_COSINE
        else f"a text has another vector in a batch than alone (cosine {cosine:.3f})"
    )


async def _longest(interview: Interview) -> tuple[int | None, ProbeVector | None]:
    """Embed a text of maximum length, halving it until one works."""
    recipe = interview.facts.embedding
    assert recipe is not None, "only embedding models are probed for vectors"
    token_id = interview.adapter().prepare_embedding(EMBEDDING_TEXTS[0], "input")[0]
    lengths = [
        recipe.max_length >> halving for halving in range(_MAX_HALVINGS) if recipe.max_length >> halving
    ]
    for length in lengths:
        try:
            (vector,) = await interview.embed([[token_id] * length])
        except EngineError:
            continue
        if all(map(math.isfinite, vector.numbers)):
            return length, vector
    return None, None


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    product: float = sum(map(operator.mul, one, other))
    return product / (math.hypot(*one) * math.hypot(*other) or 1.0)
