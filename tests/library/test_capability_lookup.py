"""Findings are looked up by fingerprint.

An unusable store is only a warning.
"""

import logging
import shutil
import sqlite3
from pathlib import Path

import pytest

from mlxctl.ir.errors import BrokenModel, SettingsError
from mlxctl.library import demo
from mlxctl.library.capability_lookup import CapabilityLookup, ProbedModel
from mlxctl.library.fingerprint import fingerprint
from mlxctl.state.stores import CapabilityStore
from tests.state.stores.probe_records import CALLS_TOOLS, record


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A copy of the demo model with a neutral name."""
    return Path(shutil.copytree(demo.MODEL_DIR, tmp_path / "models" / "copy"))


def knowledge(home: Path, overrides: str = "") -> CapabilityLookup:
    """A CapabilityLookup in an empty directory, with these overrides."""
    (home / "capabilities.toml").write_text(overrides)
    return CapabilityLookup(CapabilityStore(home / "capabilities.sqlite"), home / "capabilities.toml")


def remember(home: Path, model: Path) -> None:
    """Store the finding that the model calls tools."""
    store = CapabilityStore(home / "capabilities.sqlite")
    store.save(record(CALLS_TOOLS, fingerprint=fingerprint(model)))
    store.close()


def test_model_without_probe_has_no_findings(tmp_path: Path, model: Path) -> None:
    assert knowledge(tmp_path).of("copy", model) == ProbedModel()
    assert not (tmp_path / "capabilities.sqlite").exists()


def test_findings_follow_the_model_to_other_names_and_directories(tmp_path: Path, model: Path) -> None:
    remember(tmp_path, model)
    moved = model.rename(model.with_name("moved"))
    known = knowledge(tmp_path).of("anything", moved)
    assert known.verdicts == {"tools": "yes"}
    assert known.capabilities.tool_parser_id == "mistral"


@pytest.mark.parametrize("name", ["org/copy", "copy"])
def test_override_applies_under_every_name_of_the_model(tmp_path: Path, model: Path, name: str) -> None:
    remember(tmp_path, model)
    assert (
        knowledge(tmp_path, f'["{name}"]\ntools = "no"\n').of("org/copy", model).capabilities.tools is False
    )


def test_override_with_unknown_parser_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(
        SettingsError, match=r"unknown parser 'hermes' for tools of 'm' in .*; known: hermes_json"
    ):
        knowledge(tmp_path, '[m]\ntool_parser = "hermes"\n')


def test_store_of_a_newer_version_is_logged_once(
    tmp_path: Path, model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    remember(tmp_path, model)
    connection = sqlite3.connect(tmp_path / "capabilities.sqlite")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    known = knowledge(tmp_path, '[copy]\nthinking = "no"\n')
    with caplog.at_level(logging.WARNING):
        answers = [known.of("copy", model) for _ in range(3)]
    assert [answer.verdicts for answer in answers] == [{"thinking": "no"}] * 3
    assert len(caplog.messages) == 1
    assert "newer mlxctl" in caplog.text


def test_broken_model_has_no_findings(tmp_path: Path, model: Path) -> None:
    remember(tmp_path, model)
    (model / "model.safetensors").write_bytes(b"\xff" * 20)
    assert knowledge(tmp_path).of("copy", model) == ProbedModel()


def test_fingerprint_changes_with_each_relevant_file(model: Path) -> None:
    before = fingerprint(model)
    digests = {before}
    for name in ("config.json", "tokenizer.json", "chat_template.jinja", "generation_config.json"):
        with (model / name).open("a") as file:
            file.write("\n")
        digests.add(fingerprint(model))
    weights = bytearray((model / "model.safetensors").read_bytes())
    weights[8 + int.from_bytes(weights[:8], "little") :] = bytes(
        len(weights) - 8 - int.from_bytes(weights[:8], "little")
    )
    (model / "model.safetensors").write_bytes(weights)
    assert len(digests | {fingerprint(model)}) == 6


def test_fingerprint_of_truncated_weights_is_an_error(model: Path) -> None:
    weights = model / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(BrokenModel, match="copy"):
        fingerprint(model)
