"""Generated audio as files: read back by other decoders."""

import io
import wave
from itertools import pairwise
from typing import Any

import miniaudio
import numpy as np
import pytest
import soundfile

from mlxctl.formats.adapters.media import speech_files
from mlxctl.formats.adapters.media.resampling import Resampler
from mlxctl.formats.adapters.media.speech_files import SpeechFile
from mlxctl.ir.audio_format import AudioFormat
from mlxctl.ir.errors import InvalidRequest

RATE = 24_000
ENCODED: tuple[AudioFormat, ...] = ("mp3", "opus", "flac")


def tone(rate: int, *, seconds: float = 1.5, pitch: float = 440.0) -> Any:
    return (0.4 * np.sin(2 * np.pi * pitch * np.arange(int(rate * seconds)) / rate)).astype("<f4")


def parts_of(values: Any, *, seed: int) -> list[Any]:
    cuts = sorted(np.random.default_rng(seed).integers(0, len(values), 9))
    return [values[start:end] for start, end in pairwise((0, *cuts, len(values)))]


def written(file: SpeechFile, parts: list[Any]) -> list[bytes]:
    return [*(file.write(part.tobytes()) for part in parts), file.close()]


def samples_of(kind: AudioFormat, data: bytes) -> Any:
    """The samples that decoders find."""
    if kind == "pcm":
        return np.frombuffer(data, "<i2") / 32768
    if kind == "opus":
        return soundfile.read(io.BytesIO(data))[0]
    decoded = miniaudio.decode(data, nchannels=1, sample_rate=RATE)
    return np.frombuffer(decoded.samples, np.int16) / 32768


@pytest.mark.parametrize("kind", ["wav", "pcm", *ENCODED])
def test_parts_form_one_file_with_the_audio(kind: AudioFormat) -> None:
    values = tone(RATE)
    pieces = written(SpeechFile(kind, RATE), parts_of(values, seed=1))
    whole = written(SpeechFile(kind, RATE), [values])
    found = samples_of(kind, b"".join(pieces))
    assert np.array_equal(found, samples_of(kind, b"".join(whole)))
    assert abs(len(found) - len(values)) < 0.1 * RATE
    spectrum = np.abs(np.fft.rfft(found[: len(values)]))
    assert spectrum.argmax() == pytest.approx(440 * len(found[: len(values)]) / RATE, abs=2)
    # The first half leaves before the second is there.
    assert sum(map(len, pieces[:5])) > 0


@pytest.mark.parametrize("kind", ENCODED)
def test_corrected_file_has_its_exact_length(kind: AudioFormat) -> None:
    values, file = tone(RATE), SpeechFile(kind, RATE)
    data = bytearray(b"".join(written(file, [values])))
    for offset, correction in file.corrections:
        data[offset : offset + len(correction)] = correction
    assert soundfile.info(io.BytesIO(bytes(data))).frames == len(values)


def test_wav_has_an_unknown_length_until_it_is_corrected() -> None:
    file = SpeechFile("wav", RATE)
    data = bytearray(b"".join(written(file, [tone(RATE)])))
    with wave.open(io.BytesIO(data)) as endless:
        assert endless.getnframes() > 10**9
        assert len(endless.readframes(10**9)) == 2 * len(tone(RATE))
    ((offset, header),) = file.corrections
    data[offset : offset + len(header)] = header
    with wave.open(io.BytesIO(data)) as exact:
        assert (exact.getframerate(), exact.getnframes()) == (RATE, len(tone(RATE)))


@pytest.mark.parametrize(("kind", "rate"), [("pcm", 24_000), ("opus", 48_000), ("mp3", 32_000)])
def test_rates_that_a_format_lacks_are_resampled(kind: AudioFormat, rate: int) -> None:
    data = b"".join(written(SpeechFile(kind, 32_000), [tone(32_000)]))
    if kind == "pcm":
        assert len(data) == 2 * len(tone(24_000))
    else:
        assert soundfile.info(io.BytesIO(data)).samplerate == rate


def test_samples_out_of_range_are_clipped() -> None:
    loud = np.array([2.0, -3.0, np.nan, np.inf], "<f4")
    data = b"".join(written(SpeechFile("pcm", RATE), [loud]))
    assert np.frombuffer(data, "<i2").tolist() == [32767, -32767, 0, 32767]


def test_missing_encoder_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speech_files, "file_of", lambda _: None)
    with pytest.raises(InvalidRequest, match=r"mp3 needs soundfile \(pip install 'mlxctl\[audio\]'\)"):
        SpeechFile("mp3", RATE)
    assert written(SpeechFile("wav", RATE), [tone(RATE)])[0].startswith(b"RIFF")


@pytest.mark.parametrize(("source", "target"), [(32_000, 24_000), (44_100, 24_000), (16_000, 24_000)])
def test_resampling_in_parts_keeps_the_audio_and_no_alias(source: int, target: int) -> None:
    def resampled(values: Any) -> Any:
        resampler = Resampler(source, target)
        return np.concatenate([*map(resampler.feed, parts_of(values, seed=2)), resampler.finish()])

    kept = resampled(tone(source))
    assert len(kept) == len(tone(target))
    assert np.abs(kept - tone(target))[200:-200].max() < 1e-3
    if source > target:
        assert np.abs(resampled(tone(source, pitch=0.65 * target)))[200:-200].max() < 1e-3
