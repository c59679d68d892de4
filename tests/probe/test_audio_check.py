"""A model that claims to hear is spoken to, and believed only when it writes what was said."""

import shutil
import stat
from pathlib import Path

import pytest

from mlxctl.probe import audio_check
from mlxctl.probe.audio_check import judge
from mlxctl.probe.questions import SPOKEN
from mlxctl.probe.speech_samples import find_voice
from mlxctl.stores import CapabilityStore, Finding
from tests import tiny_models

from .conftest import probed, target


def hears(model: Path, store: CapabilityStore) -> Finding:
    (outcome,) = probed([target(model)], store)
    assert outcome.record is not None, outcome.problem
    found = outcome.record.finding("audio")
    assert found is not None
    return found


@pytest.fixture
def deaf(tmp_path: Path) -> Path:
    """The model that hears, with nothing between its ears and what it writes."""
    import mlx.core as mx

    model = Path(shutil.copytree(tiny_models.trained("whisper_words"), tmp_path / "deaf"))
    weights = dict(mx.load(str(model / "model.safetensors")))  # type: ignore[arg-type]
    for name in weights:
        if ".cross_attn.out." in name:
            weights[name] = mx.zeros_like(weights[name])
    mx.save_safetensors(str(model / "model.safetensors"), weights, metadata={"format": "mlx"})
    return model


def test_a_model_that_writes_every_sentence_hears(store: CapabilityStore) -> None:
    found = hears(tiny_models.trained("whisper_words"), store)
    assert (found.verdict, found.reason) == ("yes", "wrote what was said in 3 recordings of 3")
    written = [exchange.output for exchange in found.exchanges]
    assert written == [sentence.lower().rstrip(".") for sentence in SPOKEN]
    assert found.exchanges[0].prompt == f"(spoken) {SPOKEN[0]}"
    assert 2 < found.value["seconds"] < 6


def test_a_model_that_is_deaf_does_not(deaf: Path, store: CapabilityStore) -> None:
    found = hears(deaf, store)
    assert found.verdict == "no"
    assert len({exchange.output for exchange in found.exchanges}) == 1


def test_nothing_else_is_claimed_of_it_and_it_is_not_asked_again(store: CapabilityStore) -> None:
    first, again = (probed([target(tiny_models.trained("whisper_words"))], store)[0] for _ in range(2))
    assert (first.was_known, again.was_known) == (False, True)
    assert first.record is not None
    assert {finding.verdict for finding in first.record.findings if finding.question != "audio"} == {
        "unknown"
    }


def test_without_a_voice_nothing_is_known(store: CapabilityStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audio_check, "find_voice", lambda: None)
    found = hears(tiny_models.trained("whisper_words"), store)
    assert (found.verdict, found.has_failed) == ("unknown", True)
    assert "there is no voice here" in found.reason


def test_a_voice_that_fails_is_no_answer(
    store: CapabilityStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    say = tmp_path / "say"
    say.write_text("#!/bin/sh\nexit 1\n")
    say.chmod(say.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    found = hears(tiny_models.trained("whisper_words"), store)
    assert found.verdict == "unknown"
    assert "say said nothing" in found.reason


def test_the_voice_of_the_system_comes_first_and_is_asked_for_a_wav_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    say = tmp_path / "say"
    say.write_text(
        '#!/bin/sh\nwhile [ "$1" != -o ]; do echo "$1" >>"$(dirname "$0")/asked"; shift; done\nprintf "%s" "$3" >"$2"\n'
    )
    say.chmod(say.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    voice = find_voice()
    assert voice is not None
    assert voice("-o hello") == b"-o hello"
    assert (tmp_path / "asked").read_text().split() == ["--file-format=WAVE", "--data-format=LEI16@22050"]


RIGHT = ["Please open the window.", " my brother likes music", "Our garden is green!"]


@pytest.mark.parametrize(
    ("written", "verdict"),
    [
        (RIGHT, "yes"),
        (["Please open a widow", *RIGHT[1:]], "yes"),
        (["", *RIGHT[1:]], "unknown"),
        (["Thanks for watching!"] * 3, "no"),
        ([" ".join(RIGHT)] * 3, "no"),
        ([RIGHT[0]] * 3, "no"),
        ([RIGHT[1], RIGHT[0], RIGHT[2]], "no"),
    ],
)
def test_only_who_writes_each_sentence_is_believed(written: list[str], verdict: str) -> None:
    assert judge(written)[0] == verdict
