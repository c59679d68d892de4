"""Test of speech models: what they say is measured."""

from pathlib import Path

import numpy as np
import pytest

from mlxctl.library import read_model
from mlxctl.probe.speech_check import judge, record
from mlxctl.state.stores import CapabilityStore
from tests import tiny_models

from .conftest import probed, target

SENTENCE = "Please open the window."
RATE = 24_000


def noise(seconds: float, *, scale: float = 0.1, seed: int = 0) -> bytes:
    samples = np.random.default_rng(seed).normal(0, scale, int(seconds * RATE))
    return samples.astype("<f4").tobytes()


def test_a_model_is_probed_by_its_recordings(store: CapabilityStore) -> None:
    (outcome,) = probed([target(tiny_models.speech("qwen3_tts"))], store)
    assert outcome.record is not None, outcome.problem
    assert outcome.record.is_complete
    found = outcome.record.finding("audio")
    assert found is not None
    assert [exchange.prompt for exchange in found.exchanges] == [
        "(ada) Please open the window.",
        "(bob) Please open the window.",
        "(ada) My brother likes music.",
        "(bob) My brother likes music.",
    ]
    # Its frames have 16 samples, those of real models 1,920.
    assert (found.verdict, found.has_failed) == ("no", False)
    assert "0.02 s for 23 characters" in found.reason
    assert found.value["voices"] == ["ada", "bob"]
    assert found.value["sample_rate"] == RATE
    assert found.value["real_time_factor"] > 0


def test_spoken_words_are_understood_by_a_transcription_model(store: CapabilityStore) -> None:
    listener = read_model(tiny_models.trained("whisper_words"))
    (outcome,) = probed([target(tiny_models.trained("soprano_words"))], store, listener=listener)
    assert outcome.record is not None, outcome.problem
    found = outcome.record.finding("audio")
    assert found is not None
    assert (found.verdict, found.value["supports_tts"]) == ("yes", True)
    heard = [exchange.output.partition("heard as ")[2] for exchange in found.exchanges]
    assert heard == ["'please open the window'", "'my brother likes music'"]


def test_noise_is_not_understood_by_a_transcription_model(store: CapabilityStore, tmp_path: Path) -> None:
    noisy, found = target(tiny_models.speech("soprano")), []
    listener = read_model(tiny_models.trained("whisper_words"))
    for records, ear in ((store, None), (CapabilityStore(tmp_path / "heard.sqlite"), listener)):
        (outcome,) = probed([noisy], records, listener=ear)
        assert outcome.record is not None, outcome.problem
        found.append(outcome.record.finding("audio"))
    unheard, heard = found
    assert unheard is not None
    assert heard is not None
    assert (unheard.verdict, heard.verdict) == ("yes", "no")
    assert "words are not checked" in unheard.reason
    assert "0 of them are understood" in heard.reason
    assert "heard as" in heard.exchanges[0].output


@pytest.mark.parametrize(
    ("recordings", "verdict", "reason"),
    [
        ([noise(1.5), noise(1.5, seed=1)], "yes", "spoke 2 recordings"),
        ([noise(1.5), noise(1.5)], "no", "are the same"),
        ([noise(1.5), noise(1.5, scale=1e-4)], "no", "-80 dB"),
        ([noise(1.5), b""], "no", "0.00 s"),
        ([noise(1.5), noise(60)], "no", "60.00 s"),
    ],
)
def test_recordings_are_judged_by_length_loudness_and_difference(
    recordings: list[bytes], verdict: str, reason: str
) -> None:
    found = judge([record(SENTENCE, samples, RATE, 1.0) for samples in recordings])
    assert found[0] == verdict
    assert reason in found[1]
