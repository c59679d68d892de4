"""Transcription recipes from files, and rejection of malformed ones."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mlxctl.ir import TranscriptionRecipe, WhisperTokens
from mlxctl.ir.errors import BrokenModel
from mlxctl.library import describe_model, read_model
from mlxctl.library.transcription_families import TRANSCRIPTION_FAMILIES
from mlxctl.library.transcription_recipe import supports_transcription
from mlxctl.state import installed
from tests import tiny_models
from tests.tiny_models.transcription_models import transcription_model

Change = Callable[[dict[str, Any]], None]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_models.trained("whisper_words"), tmp_path / "ears"))


def change(model: Path, name: str, edit: Change) -> None:
    value = json.loads((model / name).read_text())
    edit(value)
    (model / name).write_text(json.dumps(value))


def recipe(model: Path) -> TranscriptionRecipe:
    found = read_model(model).transcription
    assert found is not None
    return found


def tokens(model: Path) -> WhisperTokens:
    found = recipe(model).whisper
    assert found is not None
    return found


def test_whisper_recipe_has_window_context_and_tokens(model: Path) -> None:
    found = recipe(model)
    assert (found.window_samples, found.context_length) == (2 * 16_000, 64)
    assert (found.languages, found.translates) == (("en",), True)
    ids = tokens(model)
    assert ids.end < ids.start < ids.languages["en"] < ids.translate < ids.no_times < ids.first_time
    assert list(ids.languages) == ["en"]
    facts = read_model(model)
    assert (facts.purpose, facts.context_length) == ("transcription", 64)


def test_hugging_face_field_names_are_read(model: Path) -> None:
    names = {
        "n_audio_ctx": "max_source_positions",
        "n_text_ctx": "max_target_positions",
        "n_vocab": "vocab_size",
    }
    before = recipe(model)
    change(
        model,
        "config.json",
        lambda config: config.update({new: config.pop(old) for old, new in names.items()}),
    )
    assert recipe(model) == before


def test_english_model_has_no_languages(model: Path) -> None:
    change(model, "generation_config.json", lambda generation: generation.update(is_multilingual=False))
    assert tokens(model).languages == {}
    change(model, "generation_config.json", lambda generation: generation.pop("is_multilingual"))
    assert tokens(model).languages == {}


def test_suppressed_tokens_are_read(model: Path) -> None:
    change(
        model,
        "generation_config.json",
        lambda generation: generation.update(suppress_tokens=[1, 2], begin_suppress_tokens=[3]),
    )
    assert (tokens(model).suppressed, tokens(model).suppressed_first) == ((1, 2), (3,))


@pytest.mark.parametrize(
    ("name", "edit", "message"),
    [
        ("config.json", lambda config: config.pop("n_audio_ctx"), "has no size for n_audio_ctx: None"),
        ("config.json", lambda config: config.update(n_text_ctx=-1), "has no size for n_text_ctx: -1"),
        ("config.json", lambda config: config.update(n_vocab=300), "has an invalid token: "),
        (
            "tokenizer.json",
            lambda tokenizer: tokenizer.update(added_tokens=[]),
            "has no token '<|startoftranscript|>'",
        ),
        (
            "generation_config.json",
            lambda generation: generation.update(suppress_tokens="x"),
            "no list of tokens for suppress_tokens",
        ),
        (
            "generation_config.json",
            lambda generation: generation.update(begin_suppress_tokens=[1, 10**6]),
            "no list of tokens for begin_suppress_tokens",
        ),
    ],
)
def test_malformed_transcription_files_are_a_one_line_error(
    model: Path, name: str, edit: Change, message: str
) -> None:
    change(model, name, edit)
    with pytest.raises(BrokenModel) as raised:
        read_model(model)
    assert message in str(raised.value)
    assert describe_model(model).problem == str(raised.value)


def test_missing_packages_are_named(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        installed, "EXTRAS", {"audio": {"mlx_audio": "mlx-audio", "no_such_module": "miniaudio"}}
    )
    with pytest.raises(
        BrokenModel, match=r"transcribes speech, which needs miniaudio \(pip install 'mlxctl\[audio\]'\)"
    ):
        read_model(model)
    assert "mlxctl[audio]" in (describe_model(model).problem or "")


@pytest.mark.parametrize(
    ("name", "spoil", "message"),
    [
        ("qwen3_asr", lambda path: (path / "modeling.py").touch(), r"brings Python code \(modeling.py\)"),
        (
            "qwen3_asr",
            lambda path: (path / "preprocessor_config.json").unlink(),
            "has no preprocessor_config",
        ),
        ("sensevoice", lambda path: (path / "tokens.json").unlink(), r"has no \*.bpe.model or tokens.json"),
        (
            "parakeet_ctc",
            lambda path: change(
                path, "config.json", lambda value: value["preprocessor"].update(sample_rate=8000)
            ),
            "takes audio at 8000 Hz; 16000 Hz are supported",
        ),
    ],
)
def test_other_families_are_checked_before_they_are_loaded(
    tmp_path: Path, name: str, spoil: Callable[[Path], object], message: str
) -> None:
    path = Path(shutil.copytree(transcription_model(name), tmp_path / name))
    assert recipe(path).family == name.removesuffix("_ctc")
    spoil(path)
    with pytest.raises(BrokenModel, match=message):
        read_model(path)
    assert describe_model(path).problem


@pytest.mark.parametrize(
    ("pieces", "languages"),
    [
        (["▁a", "b", *"cd"], ("en",)),
        (["▁a", "b", "ж", "θ", "é"], TRANSCRIPTION_FAMILIES["canary"].languages),
        (["▁a", "é"], None),
        (["か"], None),
    ],
)
def test_languages_of_parakeet_are_those_of_its_vocabulary(
    tmp_path: Path, pieces: list[str], languages: tuple[str, ...] | None
) -> None:
    path = Path(shutil.copytree(transcription_model("parakeet_ctc"), tmp_path / "parakeet"))
    change(path, "config.json", lambda value: value["decoder"].update(vocabulary=pieces))
    assert recipe(path).languages == languages


def test_other_models_have_no_transcription_recipe() -> None:
    assert read_model(tiny_models.model("qwen3")).transcription is None
    assert not supports_transcription({"model_type": "moonshine"})
    assert describe_model(tiny_models.trained("whisper_words")).problem is None
