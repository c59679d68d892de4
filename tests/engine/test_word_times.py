"""Word times of Whisper equal those of mlx-audio's port of OpenAI's reference."""

from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlxctl.engine.audio.transcriber import Transcriber
from mlxctl.engine.audio.word_times import cheapest_path, token_times
from mlxctl.engine.audio.workload import open_transcriber
from mlxctl.probe.questions import SPOKEN_SENTENCES

from .test_transcription import FACTS, recipe, tokens, window
from .test_transcription_models import finished


@pytest.mark.parametrize("sentence", SPOKEN_SENTENCES[:2])
def test_token_times_equal_the_reference(sentence: str) -> None:
    from mlx_audio.stt.models.whisper.audio import log_mel_spectrogram
    from mlx_audio.stt.models.whisper.timing import find_alignment

    model, ids, asked = open_transcriber(FACTS.path), tokens(), window(sentence, word_times=True)
    found, _ = finished(Transcriber(model, recipe()).transcribe(asked))
    text = [token_id for token_id in found.token_ids if token_id < ids.end]
    sound: Any = np.zeros(recipe().window_samples, np.float32)
    given_samples = np.frombuffer(asked.samples, np.int16)
    sound[: len(given_samples)] = given_samples / 32768
    tokenizer = SimpleNamespace(
        sot_sequence=(ids.start, found.language_id, ids.transcribe),
        no_timestamps=ids.no_times,
        eot=ids.end,
        split_to_word_tokens=lambda each: ([str(one) for one in each], [[one] for one in each]),
    )
    mel = log_mel_spectrogram(mx.array(sound), n_mels=model.dims.n_mels).astype(model.dtype)
    expected = find_alignment(model, tokenizer, text, mel, len(given_samples) // 160)
    assert found.token_times == pytest.approx([*(each.start for each in expected), expected[-1].end])
    assert len(found.token_times) == len(text) + 1 > 3
    assert found.token_times == sorted(found.token_times)


def test_step_that_all_tokens_attend_to_alike_does_not_disturb_the_times() -> None:
    attention = np.zeros((1, 1, 5, 12), np.float32)
    # Three tokens of text, after one of the prompt, attend to steps 1, 4 and 7; none to those from 8 on.
    attention[0, 0, [0, 1, 2, 3], [1, 4, 7, 7]] = 8
    attention[..., 8:] = -1e4
    model = SimpleNamespace(decoder=lambda *_: (None, None, [mx.array(attention)]))
    times, _ = finished(
        token_times(model, mx.zeros(1), before=[0], text=[1, 2, 3], end=4, heads=[(0, 0)], num_steps=12)
    )
    assert times[0] == 0
    assert times == sorted(set(times))


def test_times_are_not_computed_unless_asked_for() -> None:
    found, num_units = finished(Transcriber(open_transcriber(FACTS.path), recipe()).transcribe(window()))
    timed, more = finished(
        Transcriber(open_transcriber(FACTS.path), recipe()).transcribe(window(word_times=True))
    )
    assert (found.token_times, found.token_ids) == ([], timed.token_ids)
    assert more > num_units


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 8), st.integers(1, 12), st.integers(0, 99))
def test_path_is_that_of_the_reference(rows: int, columns: int, seed: int) -> None:
    from mlx_audio.stt.models.whisper.timing import dtw

    costs = np.random.default_rng(seed).integers(0, 4, (rows, columns)).astype(np.float32)
    assert np.array_equal(np.array(cheapest_path(costs)), dtw(costs))
