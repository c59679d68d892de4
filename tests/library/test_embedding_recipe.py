"""Embedding recipes from files, and rejection of unsupported ones."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from mlxctl.ir import EmbeddingRecipe
from mlxctl.ir.errors import BrokenModel
from mlxctl.library import describe_model, read_model
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


def test_text_model_has_no_embedding_recipe() -> None:
    assert read_model(tiny_models.model("qwen3")).embedding is None


def test_pooling_and_normalization_are_read_from_files(model: Path) -> None:
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
def test_every_pooling_mode_is_known(model: Path, pooling: dict[str, Any], expected: tuple[str, ...]) -> None:
    write(model, "1_Pooling/config.json", pooling)
    assert recipe(model).pooling == expected


def test_no_normalize_module_means_no_normalization(model: Path) -> None:
    modules = json.loads((model / "modules.json").read_text())
    write(model, "modules.json", modules[:2])
    assert not recipe(model).is_normalized


def test_conversion_without_modules_gets_the_default_pooling(model: Path) -> None:
    shutil.rmtree(model / "1_Pooling")
    (model / "modules.json").unlink()
    renamed = model.rename(model.with_name("Small-Embedding-4bit"))
    assert recipe(renamed) == EmbeddingRecipe(pooling=("last_token",), is_normalized=True, max_length=1024)


def test_length_limit_prompt_and_lowercasing_are_read(model: Path) -> None:
    write(model, "sentence_bert_config.json", {"max_seq_length": 128, "do_lower_case": True})
    write(
        model,
        "config_sentence_transformers.json",
        {"prompts": {"doc": "passage: "}, "default_prompt_name": "doc"},
    )
    found = recipe(model)
    assert (found.max_length, found.is_uncased, found.prompt) == (128, True, "passage: ")


@pytest.mark.parametrize(
    ("file", "value", "message"),
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
        ("modules.json", [{"path": "/2_Dense", "type": "x.Dense"}], "is outside the model directory"),
        ("modules.json", {"0": "Transformer"}, "must be a JSON array"),
        ("modules.json", ["Transformer"], "not a list of modules"),
        ("modules.json", [{"path": "../elsewhere", "type": "x.Pooling"}], "is outside the model directory"),
        ("1_Pooling/config.json", {"pooling_mode_of_tomorrow": True}, "has an unknown pooling"),
        ("1_Pooling/config.json", {"pooling_mode": "attention"}, "has an unknown pooling"),
        ("1_Pooling/config.json", [], "must be a JSON object"),
    ],
)
def test_unsupported_modules_are_a_one_line_error(model: Path, file: str, value: Any, message: str) -> None:
    write(model, file, value)
    with pytest.raises(BrokenModel, match=message) as raised:
        read_model(model)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"model_type": "siglip"},
            "model_type 'siglip', and only encoders like BERT and the text models",
        ),
        ({"use_bidirectional_attention": True}, "not supported for model_type 'qwen3'"),
        ({"is_causal": False}, "not supported for model_type 'qwen3'"),
    ],
)
def test_unsupported_architecture_is_an_error(model: Path, changes: dict[str, Any], message: str) -> None:
    change(model, "config.json", **changes)
    with pytest.raises(BrokenModel, match=message):
        read_model(model)
    assert message in (describe_model(model).problem or "")


def test_prompt_excluded_from_pooling_is_an_error(model: Path) -> None:
    change(model, "1_Pooling/config.json", include_prompt=False)
    assert recipe(model).prompt == ""
    write(
        model,
        "config_sentence_transformers.json",
        {"prompts": {"doc": "passage: "}, "default_prompt_name": "doc"},
    )
    with pytest.raises(BrokenModel, match="include_prompt"):
        read_model(model)
