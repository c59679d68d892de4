"""Finding where a speaker begins and ends."""

from typing import Any

import numpy as np
import pytest

from mlxctl.formats.adapters.media.turn_detection import Border, TurnDetector

RATE = 24_000


def sound(*parts: tuple[float, float], noise_db: float = -100) -> Any:
    """Return 16-bit samples of parts, each with seconds and decibels, in noise."""
    dice = np.random.default_rng(0)
    levels = np.concatenate([np.full(int(seconds * RATE), 10 ** (db / 20)) for seconds, db in parts])
    values = dice.normal(0, 1, len(levels)) * (levels + 10 ** (noise_db / 20))
    return (values.clip(-1, 1) * 32767).astype("<i2").tobytes()


def turns(samples: bytes, *, piece: int = 4801, threshold: float = 0.5) -> list[tuple[bool, float]]:
    detector = TurnDetector(RATE, threshold=threshold, silence_ms=500)
    borders: list[Border] = []
    for start in range(0, len(samples), piece):
        borders += detector.feed(samples[start : start + piece])
    return [(border.begins, border.sample / RATE) for border in borders]


@pytest.mark.parametrize("noise_db", [-100, -50, -40])
def test_turns_are_found_in_quiet_and_in_noise(noise_db: float) -> None:
    samples = sound(
        (1, -100), (0.8, -20), (0.3, -100), (0.5, -20), (1.2, -100), (0.5, -20), (1, -100), noise_db=noise_db
    )
    found = turns(samples)
    # Half a second of silence belongs to a turn, and a shorter pause does not end it.
    expected = [(True, 1.0), (False, 3.1), (True, 3.8), (False, 4.8)]
    assert [begins for begins, _ in found] == [begins for begins, _ in expected]
    assert [at for _, at in found] == pytest.approx([at for _, at in expected], abs=0.06)


def test_pieces_make_no_difference() -> None:
    samples = sound((0.2, -20), (1, -60), (1, -25), (1, -60))
    assert turns(samples, piece=2) == turns(samples, piece=10**6) != []


@pytest.mark.parametrize("parts", [[(3, -100)], [(3, -30)], [(1, -100), (0.05, -10), (1, -100)]])
def test_silence_steady_noise_and_clicks_are_no_turns(parts: list[tuple[float, float]]) -> None:
    assert turns(sound(*parts)) == []


def test_higher_threshold_needs_louder_sound() -> None:
    samples = sound((1, -70), (0.5, -46), (1, -70))
    assert len(turns(samples, threshold=0.5)) == 2
    assert turns(samples, threshold=0.9) == []
