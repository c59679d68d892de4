"""Kind and family from small files, and descriptions of unusable directories."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from mlxctl.library import demo, describe_model
from mlxctl.library.chat_templates import MAX_TEMPLATE_BYTES
from mlxctl.library.detection import detect
from mlxctl.library.families import find_family

from .weight_files import packed, write_model

QWEN = {
    "model_type": "qwen3",
    "architectures": ["Qwen3ForCausalLM"],
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 128,
    "intermediate_size": 128,
    "max_position_embeddings": 4096,
    "quantization": {"bits": 4, "group_size": 64, "mode": "affine"},
}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "tiny", QWEN, packed("model.layers.0.mlp.up_proj", 128, 64))


def kind_of(directory: Path, config: dict[str, Any], **more: Any) -> str:
    return detect(directory, config, **{"template": None, **more}).kind


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        ({"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]}, "text"),
        ({"model_type": "gpt2", "vocab_size": 9, "n_layer": 1}, "text"),
        ({"model_type": "gemma3", "vision_config": {}}, "vision"),
        ({"model_type": "bert", "architectures": ["BertModel"]}, "embeddings"),
        (
            {
                "model_type": "xlm-roberta",
                "architectures": ["XLMRobertaForSequenceClassification"],
                "num_labels": 1,
            },
            "reranker",
        ),
        (
            {
                "model_type": "modernbert",
                "architectures": ["XForSequenceClassification"],
                "id2label": {"0": "a", "1": "b"},
            },
            "embeddings",
        ),
        ({"model_type": "whisper"}, "speech-to-text"),
        ({"n_mels": 80, "n_audio_ctx": 1500}, "speech-to-text"),
        ({"target": "nemo.collections.asr.models.EncDecRNNTBPEModel"}, "speech-to-text"),
        ({"istftnet": {}, "plbert": {}}, "text-to-speech"),
        ({"model_type": "qwen3_tts"}, "text-to-speech"),
        ({}, "unknown"),
        ({"model_type": ["?"], "architectures": "?", "vision_config": "?"}, "unknown"),
    ],
)
def test_kind_from_configuration(tmp_path: Path, config: dict[str, Any], kind: str) -> None:
    assert kind_of(tmp_path, config) == kind


def test_kind_from_other_files(tmp_path: Path) -> None:
    (tmp_path / "modules.json").write_text("[]")
    assert kind_of(tmp_path, QWEN) == "embeddings"


def test_image_processor_means_vision_unless_the_tower_is_missing(tmp_path: Path) -> None:
    (tmp_path / "preprocessor_config.json").write_text('{"image_processor_type": "X"}')
    assert kind_of(tmp_path, QWEN) == "vision"
    assert kind_of(tmp_path, QWEN, has_vision_tower=True) == "vision"
    assert kind_of(tmp_path, QWEN, has_vision_tower=False) == "text"


def test_name_is_the_last_evidence_and_named_as_such(tmp_path: Path) -> None:
    found = detect(tmp_path, QWEN, template=None, name="org/Qwen3-Embedding-0.6B")
    assert found.kind == "embeddings"
    assert "its name" in found.evidence[0]
    assert kind_of(tmp_path, QWEN, name="org/Qwen3-Reranker", template="x") == "reranker"


@pytest.mark.parametrize(
    ("model_type", "template", "family"),
    [
        ("qwen3_next", None, "qwen"),
        ("glm4_moe", "[gMASK]<sop>", "glm4"),
        ("gpt_oss", None, "gpt-oss"),
        ("lfm2", None, "liquid"),
        ("kimi_k2", "<|im_user|>", "kimi"),
        ("deepseek_v3", "<|im_user|>", "kimi"),
        ("qwen2", "{{ '<｜User｜>' }}", "deepseek"),
        ("llama", "<|im_start|>", "llama"),
        ("llama", "<|start_header_id|> or <start_of_turn>", "llama"),
        ("brand_new", None, None),
        ("brand_new", "<start_of_turn>", "gemma"),
    ],
)
def test_family_from_architecture_unless_template_differs(
    model_type: str, template: str | None, family: str | None
) -> None:
    assert find_family(model_type, template)[0] == family


def test_description_of_a_model(model: Path) -> None:
    found = describe_model(model, name="org/tiny")
    assert (found.name, found.detection.kind, found.detection.family, found.model_type) == (
        "org/tiny",
        "text",
        "qwen",
        "qwen3",
    )
    assert found.quantization is not None
    assert (found.quantization.label, found.context_length, found.problem) == ("4-bit", 4096, None)
    assert found.weights is not None
    assert found.weights.num_parameters == 128 * 64
    assert found.cache is not None
    assert found.cache.bytes_per_token == 2 * 2 * 2 * 16 * 2


def test_description_of_the_demo_model() -> None:
    found = describe_model(demo.MODEL_DIR)
    assert (found.detection.kind, found.detection.family, found.takes_tools, found.problem) == (
        "text",
        "qwen",
        True,
        None,
    )
    assert found.runtimes is not None
    assert "mlx-lm" in found.runtimes


def break_config(model: Path) -> None:
    (model / "config.json").write_text('{"model_type": ')


def keep_only_gguf(model: Path) -> None:
    remove_config(model)
    (model / "model.gguf").touch()


def remove_config(model: Path) -> None:
    (model / "config.json").unlink()


def remove_weights(model: Path) -> None:
    (model / "model.safetensors").unlink()


def truncate_weights(model: Path) -> None:
    with (model / "model.safetensors").open("r+b") as file:
        file.truncate(500)


def change_config(model: Path, **changes: Any) -> None:
    (model / "config.json").write_text(json.dumps({**QWEN, **changes}))


def use_unknown_type(model: Path) -> None:
    change_config(model, model_type="brand_new")


def bring_model_file(model: Path) -> None:
    change_config(model, model_file="code.py")


def blow_up_template(model: Path) -> None:
    (model / "chat_template.jinja").write_text("x" * (MAX_TEMPLATE_BYTES + 1))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (break_config, "not valid JSON"),
        (remove_config, "has no config.json$"),
        (keep_only_gguf, "has no config.json; GGUF files are converted by `mlxctl models import"),
        (remove_weights, "has no weights"),
        (truncate_weights, "is truncated: it has 500 of"),
        (use_unknown_type, "no installed package has code for model_type 'brand_new'"),
        (bring_model_file, "model_file in config.json"),
        (
            blow_up_template,
            "template of model 'tiny' is larger|chat_template.jinja of model 'tiny' is larger",
        ),
    ],
)
def test_unusable_model_has_a_one_line_problem(model: Path, damage: Any, message: str) -> None:
    damage(model)
    problem = describe_model(model).problem
    assert problem is not None
    assert "\n" not in problem
    assert re.search(message, problem)
