"""Test of transcription: a model passes only if it transcribes synthesized speech."""

import asyncio
import shutil
import stat
from pathlib import Path

import pytest

from mlxctl.ir import ModelCapabilities
from mlxctl.library import read_model
from mlxctl.probe import NullObserver, audio_check
from mlxctl.probe.audio_check import check_audio_input, judge
from mlxctl.probe.interview import Interview
from mlxctl.probe.questions import SPOKEN_SENTENCES
from mlxctl.probe.speech_samples import find_synthesizer
from mlxctl.state.stores import CapabilityStore, Finding
from tests import tiny_models
from tests.engine.vision_harness import seeing_engine

from .conftest import probed, target


def hears(model: Path, store: CapabilityStore) -> Finding:
    (outcome,) = probed([target(model)], store)
    assert outcome.record is not None, outcome.problem
    found = outcome.record.finding("audio")
    assert found is not None
    return found


@pytest.fixture
def deaf(tmp_path: Path) -> Path:
    """Return the transcription model with a disabled audio encoder."""
    import mlx.core as mx

    model = Path(shutil.copytree(tiny_models.trained("whisper_words"), tmp_path / "deaf"))
    weights = dict(mx.load(str(model / "model.safetensors")))  # type: ignore[arg-type]
    for name in weights:
        if ".cross_attn.out." in name:
            weights[name] = mx.zeros_like(weights[name])
    mx.save_safetensors(str(model / "model.safetensors"), weights, metadata={"format": "mlx"})
    return model


def test_model_that_transcribes_every_sentence_passes(store: CapabilityStore) -> None:
    found = hears(tiny_models.trained("whisper_words"), store)
    assert (found.verdict, found.reason) == ("yes", "transcribed 3 recordings of 3")
    written = [exchange.output for exchange in found.exchanges]
    assert written == [sentence.lower().rstrip(".") for sentence in SPOKEN_SENTENCES]
    assert found.exchanges[0].prompt == f"(spoken) {SPOKEN_SENTENCES[0]}"
    assert 2 < found.value["seconds"] < 6


def test_model_with_disabled_encoder_fails(deaf: Path, store: CapabilityStore) -> None:
    found = hears(deaf, store)
    assert found.verdict == "no"
    assert len({exchange.output for exchange in found.exchanges}) == 1


def test_other_questions_stay_unknown_and_model_is_skipped_next_time(store: CapabilityStore) -> None:
    first, again = (probed([target(tiny_models.trained("whisper_words"))], store)[0] for _ in range(2))
    assert (first.was_known, again.was_known) == (False, True)
    assert first.record is not None
    assert {finding.verdict for finding in first.record.findings if finding.question != "audio"} == {
        "unknown"
    }


def test_audio_is_unknown_without_synthesizer(
    store: CapabilityStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audio_check, "find_synthesizer", lambda: None)
    found = hears(tiny_models.trained("whisper_words"), store)
    assert (found.verdict, found.has_failed) == ("unknown", True)
    assert "no speech synthesizer is installed" in found.reason


def test_failed_synthesis_is_unknown(
    store: CapabilityStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    say = tmp_path / "say"
    say.write_text("#!/bin/sh\nexit 1\n")
    say.chmod(say.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    found = hears(tiny_models.trained("whisper_words"), store)
    assert found.verdict == "unknown"
    assert "say returned no audio" in found.reason


def test_macos_synthesizer_comes_first_with_wav_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    say = tmp_path / "say"
    say.write_text(
        '#!/bin/sh\nwhile [ "$1" != -o ]; do echo "$1" >>"$(dirname "$0")/asked"; shift; done\nprintf '
        '"%s" "$3" >"$2"\n'
    )
    say.chmod(say.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    synthesizer = find_synthesizer()
    assert synthesizer is not None
    assert synthesizer("-o hello") == b"-o hello"
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
def test_audio_needs_every_sentence(written: list[str], verdict: str) -> None:
    assert judge(written)[0] == verdict


def test_language_model_that_repeats_no_word_is_deaf() -> None:
    model = tiny_models.model("gemma4_seer")

    async def run() -> tuple[Finding, ...]:
        async with seeing_engine(model) as client:
            interview = Interview(
                client, "m", read_model(model), deadline_seconds=60.0, observer=NullObserver()
            )
            return await check_audio_input(interview, ModelCapabilities())

    (finding,) = asyncio.run(run())
    assert (finding.question, finding.verdict) == ("audio", "no")
    assert finding.exchanges[0].prompt.count("<|audio|>") > 20
