"""Which drafters fit a model, by its files."""

from pathlib import Path
from typing import Any

import pytest

from mlxctl.library import describe_model
from mlxctl.library.draft_models import find_drafters
from mlxctl.library.mtp_heads import mtp_problem
from tests.library.weight_files import write_model

QWEN3: dict[str, Any] = {
    "model_type": "qwen3",
    "architectures": ["Qwen3ForCausalLM"],
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 128,
    "max_position_embeddings": 4096,
}
QWEN3_5 = {"model_type": "qwen3_5", "text_config": QWEN3 | {"model_type": "qwen3_5_text"}}
VOCABULARY = {"model": {"vocab": {"a": 0, "b": 1}}}
HEAD = (
    "fc", "norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden",
    *(f"layers.0.self_attn.{part}_proj" for part in "qkvo"),
)  # fmt: skip


def write(directory: Path, *, size: int, config: dict[str, Any] = QWEN3, tokenizer: Any = VOCABULARY) -> Path:
    tensors = {"model.layers.0.mlp.up_proj.weight": ("BF16", (size, 64))}
    return write_model(directory, config, tensors, tokenizer=tokenizer)


def write_head(directory: Path, *names: str, prefix: str = "mtp.", config: dict[str, Any] = QWEN3_5) -> Path:
    tensors = {f"{prefix}{name}.weight": ("BF16", (64,)) for name in names}
    return write_model(directory, config, {"model.norm.weight": ("BF16", (64,)), **tensors})


def test_smaller_models_of_one_vocabulary_can_draft(tmp_path: Path) -> None:
    large = write(tmp_path / "large", size=512)
    others = [
        large,
        write(tmp_path / "small", size=64),
        write(tmp_path / "larger", size=1024),
        write(tmp_path / "foreign", size=64, tokenizer={"model": {"vocab": {"a": 1, "b": 0}}}),
        write(tmp_path / "recurrent", size=64, config=QWEN3 | {"layer_types": ["linear_attention"] * 2}),
    ]
    drafters = find_drafters(describe_model(large), map(describe_model, others))
    assert drafters is not None
    assert drafters.draft_models == ("small",)
    assert not drafters.has_mtp_head


def test_embedding_model_has_no_drafters(tmp_path: Path) -> None:
    model = write(tmp_path / "bert", size=64, config={"model_type": "bert", "architectures": ["BertModel"]})
    assert find_drafters(describe_model(model), []) is None


@pytest.mark.parametrize("prefix", ["mtp.", "language_model.mtp.", "model.mtp."])
def test_mtp_head_is_found_by_its_tensors(tmp_path: Path, prefix: str) -> None:
    assert mtp_problem(write_head(tmp_path / "model", *HEAD, prefix=prefix)) == ""


def write_separate_head(directory: Path, *names: str, hidden_size: int = 64) -> Path:
    config = {"model_type": "qwen3_5_mtp", "text_config": QWEN3 | {"hidden_size": hidden_size}}
    return write_model(directory, config, {f"{name}.weight": ("BF16", (64,)) for name in names})


def test_separate_mtp_heads_of_the_same_sizes_can_draft(tmp_path: Path) -> None:
    tensors = {"model.layers.0.mlp.up_proj.weight": ("BF16", (64, 64))}
    config = QWEN3_5 | {"architectures": ["Qwen3_5ForCausalLM"]}
    model = write_model(tmp_path / "model", config, tensors, tokenizer=VOCABULARY)
    others = [
        write_separate_head(tmp_path / "fits", *HEAD),
        write_separate_head(tmp_path / "part", *HEAD[1:]),
        write_separate_head(tmp_path / "larger", *HEAD, hidden_size=128),
    ]

    drafters = find_drafters(describe_model(model), map(describe_model, others))

    assert drafters is not None
    assert drafters.mtp_heads == ("fits",)
    assert not drafters.has_mtp_head
    assert "'fits' is an MTP head: give it to --draft" in str(describe_model(others[0]).problem)
    assert mtp_problem(model, others[2]) == "hidden_size is 128 in the MTP head and 64 in the model"


def test_unusable_mtp_heads_are_named(tmp_path: Path) -> None:
    assert "no mtp.* tensors" in mtp_problem(write_head(tmp_path / "none"))
    assert "has no mtp.fc.weight" in mtp_problem(write_head(tmp_path / "part", *HEAD[1:]))
    other = write_head(tmp_path / "other", *HEAD, config=QWEN3)
    assert "'qwen3' are not supported" in mtp_problem(other)
