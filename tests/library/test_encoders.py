"""Encoders: supported configurations, and errors naming an unsupported field."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from mlxctl.ir import DenseLayer, EmbeddingRecipe
from mlxctl.ir.errors import BrokenModel
from mlxctl.library import describe_model, fit_model, read_model, this_machine
from mlxctl.library.fingerprint import fingerprint
from tests import tiny_models


def recipe(model: Path) -> EmbeddingRecipe:
    found = read_model(model).embedding
    assert found is not None
    return found


def copied(name: str, directory: Path, **changes: Any) -> Path:
    """Return a generated encoder with a changed configuration."""
    model = Path(shutil.copytree(tiny_models.encoder(name), directory))
    write(model, "config.json", json.loads((model / "config.json").read_text()) | changes)
    return model


def write(model: Path, name: str, value: Any) -> None:
    (model / name).write_text(json.dumps(value))


def test_encoder_class_and_modules_are_read_from_files() -> None:
    found = {name: recipe(tiny_models.encoder(name)) for name in tiny_models.ENCODER_NAMES}
    assert {name: (one.encoder, one.pooling) for name, one in found.items()} == {
        "bert": ("bert", ("cls",)),
        "xlm_roberta": ("xlm_roberta", ("mean",)),
        "modernbert": ("modernbert", ("mean",)),
        "embeddinggemma": ("gemma3_text", ("mean",)),
        "llama_bidirec": ("llama_bidirec", ("mean",)),
    }
    assert found["embeddinggemma"].dense == (
        DenseLayer(
            file="2_Dense/model.safetensors",
            num_inputs=64,
            num_outputs=128,
            has_bias=False,
            activation="identity",
        ),
        DenseLayer(
            file="3_Dense/model.safetensors",
            num_inputs=128,
            num_outputs=48,
            has_bias=False,
            activation="identity",
        ),
    )
    assert all(one.is_normalized for one in found.values())


def test_head_of_a_cross_encoder_is_read_from_files(tmp_path: Path) -> None:
    found = {name: recipe(tiny_models.encoder(name)) for name in tiny_models.CROSS_ENCODER_NAMES}
    assert {name: (one.encoder, one.dense[1].activation) for name, one in found.items()} == {
        "bert_scorer": ("bert", "identity"),
        "xlm_roberta_scorer": ("xlm_roberta", "sigmoid"),
        "modernbert_scorer": ("modernbert", "sigmoid"),
    }
    assert all(one.scores_pairs for one in found.values())
    assert [one.pooling for one in found.values()] == [("cls",), ("cls",), ("mean",)]
    named = copied("bert_scorer", tmp_path / "x", sentence_transformers={"activation_fn": "torch.nn.ReLU"})
    with pytest.raises(BrokenModel, match=r"has the unknown activation torch\.nn\.ReLU"):
        read_model(named)


def test_cross_encoder_needs_a_head_of_one_label(tmp_path: Path) -> None:
    architectures = ["BertForSequenceClassification"]
    with pytest.raises(BrokenModel, match=r"classification head of one label \(classifier\.weight\)"):
        read_model(copied("bert", tmp_path / "headless", architectures=architectures))
    llama = ["LlamaBidirectionalForSequenceClassification"]
    with pytest.raises(BrokenModel, match="supported only with the layers of BERT"):
        read_model(copied("llama_bidirec", tmp_path / "llama", architectures=llama))


@pytest.mark.parametrize("name", tiny_models.ENCODER_NAMES)
def test_description_of_an_encoder_has_no_kv_cache(name: str) -> None:
    described = describe_model(tiny_models.encoder(name))
    assert (described.detection.kind, described.problem, described.context_length) == (
        "embeddings",
        None,
        400,
    )
    fit = fit_model(described, this_machine())
    assert fit is not None
    assert (fit.fits, fit.cache_bytes, fit.predicted_tokens_per_second) == (True, 0, None)


def test_bidirectional_attention_means_embedding_model(tmp_path: Path) -> None:
    model = copied("embeddinggemma", tmp_path / "small")
    for file in ("modules.json", "config_sentence_transformers.json"):
        (model / file).unlink()
    (model / "1_Pooling/config.json").unlink()
    assert describe_model(model).detection.evidence[0] == "config.json has bidirectional attention"


@pytest.mark.parametrize(("changes", "max_length"), [({}, 400), ({"max_position_embeddings": 300}, 300 - 2)])
def test_position_table_limits_text_length(tmp_path: Path, changes: dict[str, Any], max_length: int) -> None:
    model = copied("xlm_roberta", tmp_path / "x", **changes)
    assert (recipe(model).max_length, read_model(model).context_length) == (max_length, max_length)


@pytest.mark.parametrize("model_type", ["roberta", "camembert", "xlm_roberta"])
def test_every_roberta_model_type_is_supported(tmp_path: Path, model_type: str) -> None:
    assert recipe(copied("xlm_roberta", tmp_path / "x", model_type=model_type)).encoder == "xlm_roberta"


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("bert", {"hidden_act": "relu"}, "hidden_act 'relu'"),
        ("bert", {"position_embedding_type": "relative_key"}, "position_embedding_type 'relative_key'"),
        ("xlm_roberta", {"is_decoder": True}, "is_decoder True"),
        ("modernbert", {"hidden_activation": "silu"}, "hidden_activation 'silu'"),
        ("modernbert", {"layer_types": ["full_attention"] * 4}, "layer_types"),
        (
            "modernbert",
            {"rope_parameters": {"sliding_attention": {"rope_type": "default", "rope_theta": 160_000.0}}},
            "rope_parameters for sliding_attention",
        ),
        ("embeddinggemma", {"layer_types": ["full_attention", "sliding_attention"] * 2}, "layer_types"),
        (
            "embeddinggemma",
            {
                "rope_parameters": {
                    "full_attention": {"rope_type": "linear", "rope_theta": 1_000_000.0, "factor": 8}
                }
            },
            "rope_parameters for full_attention",
        ),
    ],
)
def test_unsupported_encoder_field_is_an_error_naming_it(
    tmp_path: Path, name: str, changes: dict[str, Any], message: str
) -> None:
    model = copied(name, tmp_path / "x", **changes)
    with pytest.raises(BrokenModel, match=message) as raised:
        read_model(model)
    assert "\n" not in str(raised.value)
    assert describe_model(model).problem == str(raised.value)


def test_default_rope_is_accepted_in_both_notations(tmp_path: Path) -> None:
    rotations = {
        "full_attention": {"rope_type": "default", "rope_theta": 160_000.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
    }
    assert recipe(copied("modernbert", tmp_path / "x", rope_parameters=rotations)).encoder == "modernbert"


@pytest.mark.parametrize(
    ("name", "pooling"),
    [
        ("bge-small-en-v1.5-4bit", "cls"),
        ("multilingual-e5-small-mlx", "mean"),
        ("snowflake-arctic-embed-m", "cls"),
        ("gte-modernbert-base", "cls"),
    ],
)
def test_known_encoder_name_decides_pooling_without_modules(tmp_path: Path, name: str, pooling: str) -> None:
    model = copied("bert", tmp_path / name)
    (model / "1_Pooling/config.json").unlink()
    (model / "modules.json").unlink()
    assert (recipe(model).pooling, recipe(model).is_normalized) == ((pooling,), True)


def test_unknown_encoder_without_modules_is_an_error_with_remedy(
    tmp_path: Path,
) -> None:
    model = copied("bert", tmp_path / "mine")
    (model / "1_Pooling/config.json").unlink()
    with pytest.raises(BrokenModel, match=r"put 1_Pooling/config\.json of the model that it was made from"):
        read_model(model)


def test_dense_modules_among_the_weights_are_found_by_shape(
    tmp_path: Path,
) -> None:
    import numpy as np
    from safetensors.numpy import load_file, save_file

    model = copied("embeddinggemma", tmp_path / "embeddinggemma-300m-bf16")
    weights = load_file(model / "model.safetensors")
    for index, folder in enumerate(("2_Dense", "3_Dense")):
        weights[f"dense.{index}.weight"] = np.ascontiguousarray(
            load_file(model / folder / "model.safetensors")["linear.weight"]
        )
        shutil.rmtree(model / folder)
    save_file(weights, model / "model.safetensors")
    expected = (
        DenseLayer(num_inputs=64, num_outputs=128, has_bias=False, activation="identity"),
        DenseLayer(num_inputs=128, num_outputs=48, has_bias=False, activation="identity"),
    )
    assert recipe(model).dense == expected
    (model / "modules.json").unlink()
    assert recipe(model).dense == expected


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {
                "in_features": 64,
                "out_features": 128,
                "activation_function": "torch.nn.modules.activation.Softmax",
            },
            "unknown activation Softmax",
        ),
        ({"in_features": 64}, "no width for its Dense module"),
        ({"in_features": 32, "out_features": 128}, "for 32 numbers, but 64 come before it"),
    ],
)
def test_unsupported_dense_module_is_an_error(tmp_path: Path, config: dict[str, Any], message: str) -> None:
    model = copied("embeddinggemma", tmp_path / "x")
    write(model, "2_Dense/config.json", config)
    with pytest.raises(BrokenModel, match=message):
        read_model(model)


@pytest.mark.parametrize(
    "lost", [("2_Dense", "3_Dense"), ("2_Dense", "3_Dense", "1_Pooling", "modules.json")]
)
def test_missing_dense_modules_are_an_error(tmp_path: Path, lost: tuple[str, ...]) -> None:
    model = copied("embeddinggemma", tmp_path / "embeddinggemma-300m-4bit")
    for name in lost:
        shutil.rmtree(model / name) if (model / name).is_dir() else (model / name).unlink()
    with pytest.raises(BrokenModel, match="lacks Dense modules"):
        read_model(model)


def test_modules_change_the_fingerprint(tmp_path: Path) -> None:
    model = copied("embeddinggemma", tmp_path / "x")
    digests = {fingerprint(tiny_models.encoder("embeddinggemma"))}
    write(model, "1_Pooling/config.json", {"pooling_mode_cls_token": True})
    digests.add(fingerprint(model))
    (model / "2_Dense/model.safetensors").write_bytes((model / "3_Dense/model.safetensors").read_bytes())
    digests.add(fingerprint(model))
    write(model, "modules.json", json.loads((model / "modules.json").read_text())[:2])
    assert len(digests | {fingerprint(model)}) == 4


@pytest.mark.parametrize(("written", "pooling"), [("avg", "mean"), ("last", "last_token"), ("cls", "cls")])
def test_pooling_of_bidirectional_llama_is_read_from_config(
    tmp_path: Path, written: str, pooling: str
) -> None:
    model = copied("llama_bidirec", tmp_path / "embed-1b", pooling=written)
    (model / "modules.json").unlink()
    shutil.rmtree(model / "1_Pooling")
    assert recipe(model).pooling == (pooling,)


def test_bidirectional_llama_with_a_window_is_rejected(tmp_path: Path) -> None:
    model = copied("llama_bidirec", tmp_path / "x", layer_types=["sliding_attention"] * 4)
    with pytest.raises(BrokenModel, match="layer_types"):
        recipe(model)


def test_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlxctl.library.encoders.find_runtimes", lambda _kind: ("mlx-lm",))
    for name, extra in (("bert", "encoders"), ("llama_bidirec", "embeddings-extra")):
        with pytest.raises(BrokenModel, match=rf"mlxctl\[{extra}\]"):
            recipe(tiny_models.encoder(name))
