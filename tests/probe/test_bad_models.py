"""Models that cannot be probed give one clear line each."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mlxctl.formats.audio.registry import AUDIO_MODEL_TYPES
from mlxctl.library import demo
from mlxctl.library.speech_recipe import SPEECH_FAMILIES
from mlxctl.library.transcription_families import TRANSCRIPTION_FAMILIES
from mlxctl.probe.targets import ProbeTarget
from mlxctl.state.stores import CapabilityStore, ProbeRecord
from tests import tiny_models

from .conftest import probed, target


def change(model: Path, name: str, **values: Any) -> None:
    """Change fields of one of the model's JSON files.

    None removes a field.
    """
    file = model / name
    content = {**json.loads(file.read_text()), **values}
    file.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


def fail_in_template(model: Path) -> None:
    (model / "chat_template.jinja").write_text("{{ raise_exception('Only poems,\nplease!') }}")


BREAKAGES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no config": (lambda model: (model / "config.json").unlink(), "has no config.json"),
    "broken config": (lambda model: (model / "config.json").write_text("{"), "is not valid JSON"),
    "no model_type": (lambda model: change(model, "config.json", model_type=None), "names no model_type"),
    "unknown model_type": (
        lambda model: change(model, "config.json", model_type="unheard_of"),
        "code for model_type 'unheard_of'",
    ),
    "code of its own": (
        lambda model: change(model, "config.json", model_file="x.py"),
        "--trust-remote-code",
    ),
    "no weights": (lambda model: (model / "model.safetensors").unlink(), "has no weights"),
    "weights cut off": (lambda model: cut(model / "model.safetensors"), "model.safetensors"),
    "no tokenizer": (lambda model: (model / "tokenizer.json").unlink(), "has no tokenizer.json"),
    "broken tokenizer": (lambda model: (model / "tokenizer.json").write_text("{}"), "is not a tokenizer"),
    "no template": (lambda model: (model / "chat_template.jinja").unlink(), "has no chat template"),
    "broken template": (
        lambda model: (model / "chat_template.jinja").write_text("{% if %}"),
        "chat template of 'x' is broken",
    ),
    "template that refuses": (fail_in_template, "refuses this: Only poems, please!"),
    "template that stumbles": (
        lambda model: (model / "chat_template.jinja").write_text("{{ 1 / 0 }}"),
        "division by zero",
    ),
    "more tokens than weights": (
        lambda model: change(model, "config.json", vocab_size=100),
        "no weights for tokens beyond 99",
    ),
}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_models.model("qwen3"), tmp_path / "x"))


@pytest.mark.parametrize("name", BREAKAGES)
def test_broken_files_give_one_line_before_loading(model: Path, store: CapabilityStore, name: str) -> None:
    breakage, complaint = BREAKAGES[name]
    breakage(model)
    (outcome,) = probed([target(model, "x")], store)
    assert outcome.record is None
    assert outcome.problem is not None
    assert complaint in outcome.problem
    assert "x" in outcome.problem
    assert "\n" not in outcome.problem
    assert not store.has_records()


@pytest.mark.parametrize(
    ("change_of_config", "complaint"),
    [({"hidden_size": 32}, "cannot be loaded"), ({"num_hidden_layers": 5}, "cannot be loaded")],
)
def test_wrong_weights_are_reported_at_loading(
    model: Path, store: CapabilityStore, change_of_config: dict[str, Any], complaint: str
) -> None:
    change(model, "config.json", **change_of_config)
    (outcome,) = probed([target(model, "x")], store)
    assert outcome.problem is not None
    assert complaint in outcome.problem
    assert "\n" not in outcome.problem


def test_broken_model_does_not_stop_the_others(
    model: Path, store: CapabilityStore, demo_record: ProbeRecord
) -> None:
    (model / "config.json").unlink()
    store.save(demo_record)
    nowhere = ProbeTarget(name="nowhere", problem="there is no model 'nowhere'")
    outcomes = probed([target(model, "x"), nowhere, target(demo.MODEL_DIR, "good")], store)
    assert [outcome.name for outcome in outcomes if outcome.problem] == ["x", "nowhere"]
    assert outcomes[2].record == demo_record


def test_unsupported_kind_is_unknown_without_generation(model: Path, store: CapabilityStore) -> None:
    change(model, "config.json", model_type="moonshine", architectures=["MoonshineForConditionalGeneration"])
    (outcome,) = probed([target(model, "x")], store)
    assert outcome.record is not None, outcome.problem
    assert {finding.verdict for finding in outcome.record.findings} == {"unknown"}
    hears = outcome.record.finding("audio")
    assert hears is not None
    assert hears.reason == (
        "its files say speech-to-text (model_type 'moonshine'); "
        f"only {', '.join(('whisper', *TRANSCRIPTION_FAMILIES))} models transcribe here, only "
        f"{', '.join(SPEECH_FAMILIES)} models speak, and only "
        f"{', '.join(AUDIO_MODEL_TYPES)} models answer to audio, with mlxctl[audio] installed"
    )
