"""Test of embeddings: dimensions, norm and length are measured."""

import json
import math
import shutil
from pathlib import Path

import pytest

from mlxctl.probe.embedding_check import find_flaw
from mlxctl.state.stores import CapabilityStore, Finding
from tests import tiny_models

from .conftest import probed, target


def embeds(model: Path, store: CapabilityStore) -> Finding:
    (outcome,) = probed([target(model)], store)
    assert outcome.record is not None, outcome.problem
    assert outcome.record.is_complete
    found = outcome.record.finding("embeddings")
    assert found is not None
    return found


def test_dimensions_norm_and_max_length_are_measured(store: CapabilityStore) -> None:
    found = embeds(tiny_models.model("embedder"), store)
    assert found.verdict == "yes"
    assert found.value == {
        "dimensions": 64,
        "normalized": True,
        "max_length": 1024,
        "pooling": ["last_token"],
    }
    assert found.exchanges[0].prompt == "The ferry to the island leaves at noon."
    assert found.exchanges[0].output.startswith("64 numbers of length 1.0000: ")
    assert found.exchanges[-1].num_tokens == 1024


@pytest.mark.parametrize(
    ("name", "dimensions", "pooling"), [("bert", 64, "cls"), ("embeddinggemma", 48, "mean")]
)
def test_encoder_embeddings_are_measured(
    name: str, dimensions: int, pooling: str, store: CapabilityStore
) -> None:
    found = embeds(tiny_models.encoder(name), store)
    assert found.verdict == "yes"
    assert found.value == {
        "dimensions": dimensions,
        "normalized": True,
        "max_length": 400,
        "pooling": [pooling],
    }


def test_unnormalized_vectors_are_detected(tmp_path: Path, store: CapabilityStore) -> None:
    model = Path(shutil.copytree(tiny_models.model("embedder"), tmp_path / "x"))
    modules = json.loads((model / "modules.json").read_text())
    (model / "modules.json").write_text(json.dumps(modules[:2]))
    found = embeds(model, store)
    assert (found.verdict, found.value["normalized"]) == ("yes", False)
    assert "not normalized (lengths " in found.reason


def test_text_questions_stay_unknown_for_embedding_models(store: CapabilityStore) -> None:
    (outcome,) = probed([target(tiny_models.model("embedder"))], store)
    assert outcome.record is not None
    others = {
        finding.question: finding.verdict
        for finding in outcome.record.findings
        if finding.question != "embeddings"
    }
    assert set(others.values()) == {"unknown"}
    assert outcome.record.findings[0].reason.endswith("only models that generate text are tested for this")


def test_probed_embedding_model_is_skipped(store: CapabilityStore) -> None:
    first, again = (probed([target(tiny_models.model("embedder"))], store)[0] for _ in range(2))
    assert (first.was_known, again.was_known) == (False, True)
    assert again.record == first.record


@pytest.mark.parametrize(
    ("alone", "together", "flaw"),
    [
        ([[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]], None),
        ([[1.0, 0.0], [0.0, 1.0]], [[0.999, 0.01], [0.0, 1.0]], None),
        (
            [[1.0, math.nan], [0.0, 1.0]],
            [[1.0, 0.0], [0.0, 1.0]],
            "its vectors contain values that are not numbers",
        ),
        ([[0.0, 0.0], [0.0, 1.0]], [[0.0, 0.0], [0.0, 1.0]], "its vectors are empty: every number is zero"),
        ([[1.0, 0.0], [2.0, 0.0]], [[1.0, 0.0], [2.0, 0.0]], "different texts have the same vector"),
        (
            [[1.0, 0.0], [0.0, 1.0]],
            [[0.6, 0.8], [0.0, 1.0]],
            "a text has another vector in a batch than alone (cosine 0.600)",
        ),
    ],
)
def test_flawed_vectors_are_no_embeddings(
    alone: list[list[float]], together: list[list[float]], flaw: str | None
) -> None:
    assert find_flaw(alone, together) == flaw
