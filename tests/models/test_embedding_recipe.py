"""How an embedding model makes its vectors is read from its files, and what is not computed here is refused."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from mlxctl.errors import BrokenModel
from mlxctl.ir import EmbeddingRecipe
from mlxctl.models import describe_model, read_model
from tests import tiny_models


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_models.model("embedder"), tmp_path / "vectors"))


def write(model: Path, name: str, value: Any) -> None:
    (model / name).parent.mkdir(exist_ok=True)
    (model / name).write_text(json.dumps(value))


def change(model: Path, name: str, **changes: Any) -> None:
    write(model, name, json.loads((model / name).read_text()) | changes)


def recipe(model: Path) -> EmbeddingRecipe:
    found = read_model(model).embedding
    assert found is not None
    return found


def test_a_model_that_writes_text_has_no_recipe() -> None:
    assert read_model(tiny_models.model("qwen3")).embedding is None


def test_the_files_say_what_is_pooled_and_that_vectors_are_normalized(model: Path) -> None:
    assert recipe(model) == EmbeddingRecipe(pooling=("last_token",), is_normalized=True, max_length=1024)


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [
        ({"pooling_mode_cls_token": True}, ("cls",)),
        ({"pooling_mode_mean_tokens": True, "pooling_mode_lasttoken": False}, ("mean",)),
        ({"pooling_mode_max_tokens": True}, ("max",)),
        ({"pooling_mode_mean_sqrt_len_tokens": True}, ("mean_sqrt_len",)),
        ({"pooling_mode_weightedmean_tokens": True}, ("weighted_mean",)),
        ({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True}, ("cls", "mean")),
        ({"pooling_mode": "mean"}, ("mean",)),
        ({"pooling_mode": ["lasttoken", "cls"]}, ("last_token", "cls")),
    ],
)
def test_every_way_of_pooling_has_its_name(
    model: Path, pooling: dict[str, Any], expected: tuple[str, ...]
) -> None:
    write(model, "1_Pooling/config.json", pooling)
    assert recipe(model).pooling == expected


def test_vectors_of_a_model_without_a_normalize_module_are_left_as_they_are(model: Path) -> None:
    modules = json.loads((model / "modules.json").read_text())
    write(model, "modules.json", modules[:2])
    assert not recipe(model).is_normalized


def test_a_conversion_that_lost_these_files_is_taken_for_what_most_are(model: Path) -> None:
    shutil.rmtree(model / "1_Pooling")
    (model / "modules.json").unlink()
    renamed = model.rename(model.with_name("Small-Embedding-4bit"))
    assert recipe(renamed) == EmbeddingRecipe(pooling=("last_token",), is_normalized=True, max_length=1024)


def test_the_shorter_limit_the_prompt_and_lower_case_are_honored(model: Path) -> None:
    write(model, "sentence_bert_config.json", {"max_seq_length": 128, "do_lower_case": True})
    write(
        model,
        "config_sentence_transformers.json",
        {"prompts": {"doc": "passage: "}, "default_prompt_name": "doc"},
    )
    found = recipe(model)
    assert (found.max_length, found.is_uncased, found.prompt) == (128, True, "passage: ")


@pytest.mark.parametrize(
    ("file", "value", "complaint"),
    [
        (
            "modules.json",
            [{"path": "2_LSTM", "type": "sentence_transformers.models.LSTM"}],
            "has a LSTM module",
        ),
        (
            "modules.json",
            [{"path": "", "type": "x.Normalize"}, {"path": "", "type": "x.Pooling"}],
            "in another order than",
        ),
        ("modules.json", [{"path": "/2_Dense", "type": "x.Dense"}], "lies outside of it"),
        ("modules.json", {"0": "Transformer"}, "must hold a JSON array"),
        ("modules.json", ["Transformer"], "no list of modules"),
        ("modules.json", [{"path": "../elsewhere", "type": "x.Pooling"}], "lies outside of it"),
        ("1_Pooling/config.json", {"pooling_mode_of_tomorrow": True}, "pools in a way that is unknown here"),
        ("1_Pooling/config.json", {"pooling_mode": "attention"}, "pools in a way that is unknown here"),
        ("1_Pooling/config.json", [], "must hold a JSON object"),
    ],
)
def test_what_would_give_wrong_vectors_is_refused_in_one_line(
    model: Path, file: str, value: Any, complaint: str
) -> None:
    write(model, file, value)
    with pytest.raises(BrokenModel, match=complaint) as refusal:
        read_model(model)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"model_type": "siglip"}, "is of model_type 'siglip', and only BERT's kin and the text models"),
        ({"use_bidirectional_attention": True}, "not computed here for model_type 'qwen3'"),
        ({"is_causal": False}, "not computed here for model_type 'qwen3'"),
    ],
)
def test_a_model_that_nothing_here_computes_is_refused_by_name(
    model: Path, changes: dict[str, Any], complaint: str
) -> None:
    change(model, "config.json", **changes)
    with pytest.raises(BrokenModel, match=complaint):
        read_model(model)
    assert complaint in (describe_model(model).problem or "")


def test_a_prompt_that_must_not_be_pooled_is_refused(model: Path) -> None:
    change(model, "1_Pooling/config.json", include_prompt=False)
    assert recipe(model).prompt == ""
    write(
        model,
        "config_sentence_transformers.json",
        {"prompts": {"doc": "passage: "}, "default_prompt_name": "doc"},
    )
    with pytest.raises(BrokenModel, match="include_prompt"):
        read_model(model)
