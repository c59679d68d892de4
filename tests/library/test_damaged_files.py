"""Damaged optional files are ignored with a warning, others are named."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from mlxctl.formats.adapters import create_adapter
from mlxctl.ir.errors import ModelError
from mlxctl.library import describe_model, read_model
from mlxctl.library.demo import MODEL_DIR
from mlxctl.library.files import warn_once
from mlxctl.library.fingerprint import fingerprint
from tests.permissions import restricted_directory

OPTIONAL = [
    "generation_config.json",
    "model.safetensors.index.json",
    "chat_template.json",
    "preprocessor_config.json",
    "processor_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "README.md",
]
READ = OPTIONAL[:2]
"""Those that are read of a text model with a chat_template.jinja."""
REQUIRED = ["config.json", "tokenizer.json", "model.safetensors"]


def make_directory(file: Path) -> None:
    file.unlink(missing_ok=True)
    file.mkdir()


def dangle(file: Path) -> None:
    file.unlink(missing_ok=True)
    file.symlink_to(file.with_name("nothing"))


CONTENTS = {
    "empty": b"",
    "truncated": b'{"temperature": 0.5, "eos_tok',
    "a list": b"[1]",
    "a number": b"5",
    "null": b"null",
    "binary": b"\xff\xfe\x00",
    "deep": b"[" * 100_000,
}
DAMAGE: dict[str, Callable[[Path], object]] = {
    **{name: lambda file, content=content: file.write_bytes(content) for name, content in CONTENTS.items()},  # type: ignore[misc]
    "directory": make_directory,
    "dangling link": dangle,
}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return Path(shutil.copytree(MODEL_DIR, tmp_path / "model"))


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_optional_files_are_ignored(model: Path, caplog: pytest.LogCaptureFixture, kind: str) -> None:
    warn_once.cache_clear()
    for name in OPTIONAL:
        DAMAGE[kind](model / name)
    assert describe_model(model).problem is None
    facts = read_model(model)
    assert create_adapter(facts, name="model").verdict is not None
    assert (facts.generation_config, facts.chat_template is not None) == ({}, True)
    assert len(fingerprint(model)) == 64
    is_named = [name for name in READ if f"{name} of model" in caplog.text]
    assert is_named == ([] if kind in ("directory", "dangling link") else READ)


def test_unreadable_optional_files_are_ignored() -> None:
    # Another user may not import what these import.
    assert (describe_model(MODEL_DIR).problem, len(fingerprint(MODEL_DIR))) == (None, 64)
    files = {file.name: file.read_bytes() for file in MODEL_DIR.iterdir()}
    with restricted_directory() as directory:
        for name, content in files.items():
            (directory / name).write_bytes(content)
        for name in OPTIONAL:
            (directory / name).touch()
            (directory / name).chmod(0)
        assert describe_model(directory).problem is None
        assert len(fingerprint(directory)) == 64


@pytest.mark.parametrize("name", REQUIRED)
@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_required_files_are_named(model: Path, name: str, kind: str) -> None:
    DAMAGE[kind](model / name)
    problem = problem_of(model) or ""
    assert name in problem or "has no weights (*.safetensors)" in problem
    assert "\n" not in problem


def problem_of(model: Path) -> str | None:
    """Why the files cannot be served, if they cannot."""
    try:
        create_adapter(read_model(model), name="model")
    except ModelError as error:
        return str(error)
    return describe_model(model).problem


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"chat_template": 5}', b"{}"])
def test_another_template_replaces_a_damaged_one(model: Path, content: bytes) -> None:
    settings = json.loads((model / "tokenizer_config.json").read_bytes())
    (model / "tokenizer_config.json").write_text(json.dumps({**settings, "chat_template": "hello"}))
    (model / "chat_template.json").write_bytes(content)
    (model / "chat_template.jinja").write_bytes(b"")
    assert read_model(model).chat_template == "hello"


def test_byte_order_mark_is_no_damage(model: Path) -> None:
    for name in ("config.json", "tokenizer_config.json"):
        (model / name).write_bytes(b"\xef\xbb\xbf" + (model / name).read_bytes())
    (model / "generation_config.json").write_bytes(b'\xef\xbb\xbf{"max_new_tokens": 7}')
    assert describe_model(model).problem is None
    assert read_model(model).default_max_tokens == 7
