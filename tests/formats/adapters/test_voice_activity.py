"""Which parts of a file are transcribed, and where it is cut."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlxctl.formats.adapters.media.voice_activity import (
    FRAME_SAMPLES,
    frame_levels,
    loud_parts,
    quietest_moment,
)
from tests.engine.test_transcription_models import samples

RATE = 16_000


def parts(sound: Any) -> list[tuple[float, float]]:
    """The loud parts in seconds."""
    found = loud_parts(frame_levels(sound), num_samples=len(sound))
    return [(round(start / RATE, 1), round(end / RATE, 1)) for start, end in found]


def tone(seconds: float, level: float) -> Any:
    """Syllables of a tone, at a level in dBFS."""
    times: Any = np.arange(round(seconds * RATE)) / RATE
    sound = np.sin(2 * np.pi * 300 * times) * np.abs(np.sin(np.pi * 3 * times)) * 32767 * 10 ** (level / 20)
    return sound.astype(np.int16)


def noise(seconds: float, level: float) -> Any:
    sound = np.random.default_rng(2).normal(0, 32767 * 10 ** (level / 20), round(seconds * RATE))
    return np.clip(sound, -32768, 32767).astype(np.int16)


@pytest.mark.parametrize(
    "silent", [np.zeros(5 * RATE, np.int16), noise(5, -60), noise(5, -40)], ids=["digital", "low", "hiss"]
)
def test_silence_and_low_noise_have_no_parts(silent: Any) -> None:
    assert parts(silent) == []


@pytest.mark.parametrize("background", [None, -60, -45])
@pytest.mark.parametrize("level", [-3, -25])
def test_speech_between_long_pauses_is_found(level: float, background: float | None) -> None:
    spoken, pause = tone(2, level), np.zeros(5 * RATE, np.int16)
    sound = np.concatenate([pause, spoken, pause, spoken])
    if background is not None:
        sound = sound + noise(len(sound) / RATE, background)
    (first, first_end), (second, second_end) = parts(sound)
    assert 4.6 <= first <= 5
    assert first_end + 0.05 >= 7
    assert first_end <= 7.4
    assert 11.6 <= second <= 12
    assert second_end == 14


def test_short_pauses_do_not_divide() -> None:
    sound = np.concatenate([tone(2, -10), np.zeros(RATE, np.int16), tone(2, -10)])
    assert parts(sound) == [(0, 5)]


@pytest.mark.parametrize("level", [-50, -20, 0])
def test_quiet_recordings_and_steady_loud_sound_are_kept(level: float) -> None:
    assert parts(tone(3, level)) == [(0, 3)]
    assert parts(noise(3, -20)) == [(0, 3)]


def test_a_cut_is_in_the_pause() -> None:
    sound = np.concatenate([tone(4, -10), np.zeros(RATE // 2, np.int16), tone(4, -10)])
    assert 4 * RATE < quietest_moment(sound, RATE, 8 * RATE) < 4.5 * RATE


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(1, 200)), max_size=12))
def test_parts_are_in_order_and_cover_what_is_loud(runs: list[tuple[bool, int]]) -> None:
    loud = np.frombuffer(samples(), np.int16)[:FRAME_SAMPLES]
    pieces = [np.tile(loud if is_loud else 0 * loud, length) for is_loud, length in runs]
    sound = np.concatenate(pieces) if pieces else np.zeros(0, np.int16)
    found = loud_parts(frame_levels(sound), num_samples=len(sound))
    borders = [border for part in found for border in part]
    assert borders == sorted(borders)
    covered = np.zeros(len(sound), bool)
    for start, end in found:
        covered[start:end] = True
    assert not np.any(np.abs(sound[~covered]) > 1000)
