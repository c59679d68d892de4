"""Audio files become samples, window by window; invalid ones raise."""

import array
import math
import struct
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlxctl.formats.adapters.media import audio_files
from mlxctl.formats.adapters.media.audio_files import AudioFile
from mlxctl.ir.errors import InvalidRequest
from tests.tiny_models.audio_samples import silence, wav


def tone(seconds: float, *, rate: int, num_channels: int = 1) -> bytes:
    """Return a WAV file of a 440 Hz tone.

    The same in each channel.
    """
    samples = [
        round(8000 * math.sin(2 * math.pi * 440 * place / rate)) for place in range(int(seconds * rate))
    ]
    return wav(
        array.array("h", [sample for sample in samples for _ in range(num_channels)]).tobytes(),
        rate=rate,
        num_channels=num_channels,
    )


def samples_of(sound: AudioFile) -> "array.array[int]":
    return array.array("h", sound.read_window(0, sound.num_samples))


@pytest.mark.parametrize(("rate", "num_channels"), [(16_000, 1), (8_000, 1), (44_100, 2), (48_000, 1)])
def test_audio_is_resampled_to_16_khz_mono(rate: int, num_channels: int) -> None:
    sound = AudioFile(tone(0.5, rate=rate, num_channels=num_channels))
    samples = samples_of(sound)
    assert sound.seconds == pytest.approx(0.5, abs=0.01)
    rising = sum(one < 0 <= other for one, other in pairwise(samples))
    assert rising == pytest.approx(220, abs=2)
    assert max(samples) == pytest.approx(8000, rel=0.1)


def test_16_khz_mono_samples_are_unchanged() -> None:
    data = array.array("h", range(-3000, 3000)).tobytes()
    assert samples_of(AudioFile(wav(data))).tobytes() == data


@settings(max_examples=20)
@given(st.lists(st.integers(0, 9000), min_size=1, max_size=8), st.integers(1, 12_000))
def test_windows_may_start_anywhere_forward(starts: list[int], length: int) -> None:
    data = array.array("h", [place % 30_000 for place in range(20_000)])
    sound = AudioFile(wav(data.tobytes()))
    for start in sorted(starts):
        assert sound.read_window(start, length) == data[start : start + length].tobytes()
    assert sound.read_window(20_000, length) == b""


def silent_mp3(num_frames: int) -> bytes:
    """Return silent MPEG-1 layer III frames (ISO/IEC 11172-3).

    128 kbit/s, 44.1 kHz, stereo.
    """
    return (b"\xff\xfb\x90\x00" + bytes(413)) * num_frames


def silent_flac(seconds: int) -> bytes:
    """Return a silent FLAC stream (RFC 9639).

    16 kHz, mono, 16 bits; each frame holds a second of the constant 0.
    """
    information = struct.pack(">HH", 16_000, 16_000) + bytes(6)
    information += ((16_000 << 44) | (15 << 36) | (seconds * 16_000)).to_bytes(8, "big") + bytes(16)
    return (
        b"fLaC\x80"
        + len(information).to_bytes(3, "big")
        + information
        + b"".join(map(_silent_frame, range(seconds)))
    )


def _silent_frame(number: int) -> bytes:
    header = b"\xff\xf8\x75\x08" + bytes([number]) + struct.pack(">H", 15_999)
    header += bytes([_crc(header, 0x107, 8)])
    frame = header + bytes(3)
    return frame + struct.pack(">H", _crc(frame, 0x18005, 16))


def _crc(data: bytes, polynomial: int, num_bits: int) -> int:
    value = int.from_bytes(data, "big") << num_bits
    for bit in range(value.bit_length() - 1, num_bits - 1, -1):
        if value >> bit & 1:
            value ^= polynomial << (bit - num_bits)
    return value


@pytest.mark.parametrize(
    ("data", "seconds"), [(silent_mp3(40), 40 * 1152 / 44_100), (silent_flac(3), 3.0)], ids=["mp3", "flac"]
)
def test_compressed_files_are_decoded(data: bytes, seconds: float) -> None:
    sound = AudioFile(data)
    assert sound.seconds == pytest.approx(seconds, abs=0.06)
    assert set(samples_of(sound)) <= {-1, 0, 1}


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", "file is empty"),
        (
            b"hello, this is a text",
            "file is no supported audio file; send WAV, FLAC or MP3",
        ),
        (b"\0\0\0\x20ftypM4A \0\0\0\0", "file is MP4 [(]M4A[)], which is not supported"),
        (b"\x1a\x45\xdf\xa3" + bytes(40), "file is WebM or Matroska"),
        (b"OggS\0\2" + bytes(22) + b"OpusHead" + bytes(30), "file is Ogg, which is not supported"),
        (b"RIFF\x24\0\0\0WAVEjunk", "file is damaged, or of an unsupported kind; send WAV"),
        (silence(0.05), "file holds 0.05 seconds of audio; at least 0.1 are needed"),
    ],
)
def test_invalid_audio_files_raise(data: bytes, error: str) -> None:
    with pytest.raises(InvalidRequest, match=error) as refusal:
        AudioFile(data)
    assert refusal.value.param == "file"


def test_small_file_with_hours_of_silence_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audio_files, "MAX_AUDIO_SECONDS", 20)
    assert AudioFile(silent_flac(20)).seconds == 20
    with pytest.raises(InvalidRequest, match="of audio; send it in parts"):
        AudioFile(silent_flac(21))
