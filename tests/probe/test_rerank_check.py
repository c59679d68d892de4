"""Test of cross-encoders: pairs are scored, nothing is generated."""

import math

import pytest

from mlxctl.probe.rerank_check import judge
from mlxctl.state.stores import CapabilityStore
from tests import tiny_models

from .conftest import probed, target

GOOD = [[0.9, 0.1, 0.1], [0.2, 0.8, 0.1], [0.0, 0.1, 0.7]]


@pytest.mark.parametrize("name", tiny_models.CROSS_ENCODER_NAMES)
def test_cross_encoder_is_probed_by_its_scores(name: str, store: CapabilityStore) -> None:
    (outcome,) = probed([target(tiny_models.encoder(name))], store)
    assert outcome.record is not None, outcome.problem
    assert outcome.record.is_complete
    found = outcome.record.finding("reranking")
    assert found is not None
    assert not found.has_failed
    scores = found.value["scores"]
    firsts = [row.index(max(row)) for row in scores]
    assert found.verdict == ("yes" if firsts == [0, 1, 2] else "no")
    assert found.exchanges[0].output == f"score {scores[0][0]:.4f}"
    assert {other.verdict for other in outcome.record.findings if other.question != "reranking"} == {
        "unknown"
    }


@pytest.mark.parametrize(
    ("scores", "alone", "verdict", "reason"),
    [
        (GOOD, GOOD[-1], "yes", "first for 3 queries of 3"),
        ([GOOD[0], GOOD[0], GOOD[2]], GOOD[-1], "no", "first for 2 queries of 3"),
        ([*GOOD[:2], [math.nan, 0.1, 0.7]], GOOD[-1], "no", "not numbers"),
        (GOOD, [0.0, 0.1, 0.4], "no", "another score in a batch"),
        ([*GOOD[:2], [1.0, 2.0, 12.1]], [1.0, 2.0, 12.0], "yes", "first for 3"),
    ],
)
def test_scores_are_judged_by_the_matching_document(
    scores: list[list[float]], alone: list[float], verdict: str, reason: str
) -> None:
    found = judge(scores, alone)
    assert found[0] == verdict
    assert reason in found[1]
