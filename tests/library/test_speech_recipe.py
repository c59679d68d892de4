"""What a speech model can do, by its files."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mlxctl.ir import SpeechRecipe
from mlxctl.ir.errors import BrokenModel
from mlxctl.library import describe_model, read_model
from mlxctl.library.fingerprint import fingerprint
from mlxctl.library.fit import fit_model
from mlxctl.library.machine import Machine
from tests import tiny_models


def recipe_of(path: Path) -> SpeechRecipe:
    facts = read_model(path)
    assert facts.speech is not None
    assert facts.purpose == "speech"
    return facts.speech


def changed(name: str, path: Path, change: Callable[[Path], object]) -> Path:
    copy = shutil.copytree(tiny_models.speech(name), path / name)
    change(copy)
    return copy


def with_config(**fields: Any) -> Callable[[Path], object]:
    def change(path: Path) -> None:
        config = json.loads((path / "config.json").read_text())
        (path / "config.json").write_text(json.dumps({**config, **fields}))

    return change


def test_voices_and_abilities_come_from_the_files() -> None:
    qwen, design, base, soprano, pocket = (
        recipe_of(tiny_models.speech(name)) for name in tiny_models.SPEECH_NAMES
    )
    assert (qwen.voices, qwen.default_voice, qwen.languages) == (["ada", "bob"], "ada", ["english", "german"])
    assert (qwen.follows_instructions, qwen.clones_voices, qwen.requires) == (True, False, None)
    assert (design.voices, design.requires) == ([], "instructions")
    assert (base.voices, base.clones_voices, base.requires) == ([], True, None)
    assert (soprano.sample_rate, soprano.voices, soprano.requires) == (32_000, [], None)
    assert (pocket.voices, pocket.clones_voices) == (["ada", "bob"], True)


def test_small_custom_voice_models_follow_no_instructions(tmp_path: Path) -> None:
    assert not recipe_of(
        changed("qwen3_tts", tmp_path, with_config(tts_model_size="0b6"))
    ).follows_instructions


def test_pocket_models_without_voices_require_a_recording(tmp_path: Path) -> None:
    path = changed("pocket_tts", tmp_path, lambda path: shutil.rmtree(path / "voices"))
    assert recipe_of(path).requires == "reference"


def test_soprano_with_the_type_of_its_language_model_is_known_by_its_name(tmp_path: Path) -> None:
    path = changed("soprano", tmp_path, with_config(model_type="qwen3"))
    assert recipe_of(path).family == "soprano"
    assert describe_model(path).detection.kind == "text-to-speech"


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("qwen3_tts", lambda path: (path / "modeling.py").touch(), r"has Python code \(modeling.py\)"),
        ("qwen3_tts", lambda path: (path / "speech_tokenizer" / "x.py").touch(), "is never run"),
        ("qwen3_tts", lambda path: shutil.rmtree(path / "speech_tokenizer"), "has no codec"),
        ("qwen3_tts", lambda path: (path / "tokenizer.json").unlink(), r"vocab\.json and merges\.txt"),
        ("soprano", with_config(head_dim=0), "no usable head_dim"),
        ("pocket_tts", with_config(mimi={"sample_rate": "24k"}), "no usable sample_rate"),
        ("soprano", with_config(model_type="bark"), "models of type 'bark' are not supported"),
    ],
)
def test_what_cannot_speak_here_is_refused_in_one_line(
    name: str, change: Callable[[Path], object], message: str, tmp_path: Path
) -> None:
    path = changed(name, tmp_path, change)
    with pytest.raises(BrokenModel, match=message):
        read_model(path)
    assert describe_model(path).problem is not None


def test_a_speech_model_fits_with_the_memory_of_one_request() -> None:
    described = describe_model(tiny_models.speech("qwen3_tts"))
    assert described.weights is not None
    assert described.speech is not None
    needed = described.weights.num_bytes + described.speech.request_bytes
    assert needed > read_model(described.path).weights_bytes
    for usable, fits in ((needed, True), (needed - 1, False)):
        machine = Machine(
            chip="X", memory_bytes=1 << 40, usable_bytes=usable, is_exact=True, has_metal=True,
            bandwidth_bytes_per_second=1e9,
        )  # fmt: skip
        fit = fit_model(described, machine)
        assert fit is not None
        assert fit.fits == fits


def test_a_voice_changes_the_fingerprint(tmp_path: Path) -> None:
    path = changed("pocket_tts", tmp_path, lambda path: (path / "voices" / "bob.safetensors").unlink())
    assert fingerprint(path) != fingerprint(tiny_models.speech("pocket_tts"))
