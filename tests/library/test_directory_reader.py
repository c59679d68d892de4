"""Model directories: what is read, and one-line errors for what is rejected."""

import json
from pathlib import Path
from typing import Any

import pytest

from mlxctl.ir.errors import BrokenModel, ModelNotFoundOnDisk
from mlxctl.library import read_model
from mlxctl.library.chat_templates import MAX_TEMPLATE_BYTES

CONFIG = {"model_type": "qwen3", "max_position_embeddings": 40_960}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "tiny"
    path.mkdir()
    _write(path, "config.json", CONFIG)
    _write(path, "tokenizer.json", {})
    (path / "model.safetensors").write_bytes(b"\0" * 1000)
    return path


def _write(directory: Path, name: str, value: Any) -> None:
    (directory / name).write_text(json.dumps(value), encoding="utf-8")


def test_minimal_directory_is_readable(directory: Path) -> None:
    facts = read_model(directory)
    assert (facts.path, facts.model_type, facts.context_length, facts.weights_bytes) == (
        directory,
        "qwen3",
        40_960,
        1000,
    )
    assert (facts.generation_config, facts.tokenizer_config, facts.chat_template) == ({}, {}, None)


def test_all_files_are_read(directory: Path) -> None:
    _write(directory, "generation_config.json", {"temperature": 0.6})
    _write(directory, "tokenizer_config.json", {"eos_token": "</s>"})
    facts = read_model(directory)
    assert facts.config == CONFIG
    assert facts.generation_config == {"temperature": 0.6}
    assert facts.tokenizer_config == {"eos_token": "</s>"}


def test_weights_in_several_files_are_summed(directory: Path) -> None:
    (directory / "model-2.safetensors").write_bytes(b"\0" * 500)
    assert read_model(directory).weights_bytes == 1500


def test_linked_weights_count_with_the_targets_size(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "blob").write_bytes(b"\0" * 300)
    (directory / "linked.safetensors").symlink_to(tmp_path / "blob")
    assert read_model(directory).weights_bytes == 1300


def test_missing_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundOnDisk, match="nowhere"):
        read_model(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("config.json", "no config.json"),
        ("tokenizer.json", "no tokenizer.json"),
        ("model.safetensors", "no weights"),
    ],
)
def test_missing_file_is_named(directory: Path, name: str, message: str) -> None:
    (directory / name).unlink()
    with pytest.raises(BrokenModel, match=message):
        read_model(directory)


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
@pytest.mark.parametrize("content", [b"{", b"[1]", b"null", b"\xff\xfe", b"[" * 100_000])
def test_malformed_file_is_a_one_line_error(directory: Path, name: str, content: bytes) -> None:
    (directory / name).write_bytes(content)
    with pytest.raises(BrokenModel) as raised:
        read_model(directory)
    assert name in str(raised.value)
    assert "\n" not in str(raised.value)


def test_too_large_file_is_not_read(directory: Path) -> None:
    with (directory / "config.json").open("wb") as file:
        file.truncate((64 << 20) + 1)
    with pytest.raises(BrokenModel, match="larger than"):
        read_model(directory)


@pytest.mark.parametrize("config", [{}, {"model_type": 5}, {"model_type": ""}])
def test_missing_model_type_is_an_error(directory: Path, config: dict[str, Any]) -> None:
    _write(directory, "config.json", config)
    with pytest.raises(BrokenModel, match="model_type"):
        read_model(directory)


def test_whisper_model_without_tokenizer_names_repositories_that_have_one(directory: Path) -> None:
    _write(directory, "config.json", {"model_type": "whisper"})
    (directory / "tokenizer.json").unlink()
    with pytest.raises(BrokenModel, match=r"has no tokenizer\.json; .*openai/whisper-large-v3-turbo"):
        read_model(directory)


def test_model_built_by_its_own_code_needs_trust_remote_code(directory: Path) -> None:
    _write(directory, "config.json", {**CONFIG, "model_file": "modeling.py"})
    with pytest.raises(BrokenModel, match=r"model_file in config\.json"):
        read_model(directory)
    assert read_model(directory, trust_remote_code=True).model_type == "qwen3"


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
def test_code_for_transformers_is_not_needed(directory: Path, file: str) -> None:
    _write(directory, file, {**CONFIG, "auto_map": {"AutoModel": "modeling.Unused"}})
    assert read_model(directory).model_type == "qwen3"


def test_incomplete_download_is_an_error(directory: Path) -> None:
    index = {"weight_map": {"a": "model.safetensors", "b": "model-00002.safetensors"}}
    _write(directory, "model.safetensors.index.json", index)
    with pytest.raises(BrokenModel, match="model-00002"):
        read_model(directory)


def test_index_of_other_weights_is_ignored(directory: Path) -> None:
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
    _write(directory, "model.safetensors.index.json", index)
    assert read_model(directory).weights_bytes == 1000


@pytest.mark.parametrize("index", [None, {"weight_map": {"a": "model-00001-of-00009.safetensors"}}])
def test_numbered_weights_are_complete_without_their_index(directory: Path, index: Any) -> None:
    if index is not None:
        _write(directory, "model.safetensors.index.json", index)
    first, second = (directory / f"model-0000{number}-of-00002.safetensors" for number in (1, 2))
    (directory / "model.safetensors").rename(first)
    with pytest.raises(BrokenModel, match="lacks 1 of its weight files, such as 'model-00002-of-00002"):
        read_model(directory)
    second.write_bytes(b"")
    assert read_model(directory).weights_bytes == 1000


class TestChatTemplate:
    """The three places of a chat template."""

    def test_jinja_file_takes_precedence(self, directory: Path) -> None:
        _write(directory, "tokenizer_config.json", {"chat_template": "third"})
        assert read_model(directory).chat_template == "third"
        _write(directory, "chat_template.json", {"chat_template": "second"})
        assert read_model(directory).chat_template == "second"
        (directory / "chat_template.jinja").write_text("first\n")
        assert read_model(directory).chat_template == "first\n"

    @pytest.mark.parametrize(
        ("names", "chosen"), [(["tool_use", "default"], "default"), (["rag", "tool_use"], "rag")]
    )
    def test_default_of_named_templates_is_used(self, directory: Path, names: list[str], chosen: str) -> None:
        named = [{"name": name, "template": f"the {name} one"} for name in names]
        _write(directory, "tokenizer_config.json", {"chat_template": named})
        assert read_model(directory).chat_template == f"the {chosen} one"

    def test_template_must_be_text(self, directory: Path) -> None:
        _write(directory, "tokenizer_config.json", {"chat_template": 5})
        with pytest.raises(BrokenModel, match="must be text"):
            read_model(directory)

    @pytest.mark.parametrize("in_config", [True, False])
    def test_too_large_template_is_an_error(self, directory: Path, in_config: bool) -> None:
        template = "x" * (MAX_TEMPLATE_BYTES + 1)
        if in_config:
            _write(directory, "tokenizer_config.json", {"chat_template": template})
        else:
            (directory / "chat_template.jinja").write_text(template)
        with pytest.raises(BrokenModel, match="larger than"):
            read_model(directory)
