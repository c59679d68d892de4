"""WAV files for tests: generated speech and silence."""

import io
import math
import random
import wave
from array import array

from mlxctl.probe.speech_samples import find_synthesizer


def speech_audio(*sentences: str, pause_seconds: float = 0.4, every_seconds: float | None = None) -> bytes:
    """Return a WAV file of these sentences.

    With a pause before each and at the end, or one sentence every `every_seconds`.
    """
    voice = find_synthesizer()
    assert voice is not None, "the extra `test` brings a voice"
    rate, pieces = 0, []
    for sentence in sentences:
        with wave.open(io.BytesIO(voice(sentence))) as reader:
            rate = reader.getframerate()
            pieces.append(reader.readframes(reader.getnframes()))
    pause = bytes(2 * int(pause_seconds * rate))
    if every_seconds is None:
        return wav(pause + b"".join(sound + pause for sound in pieces), rate=rate)
    length = 2 * int(every_seconds * rate)
    return wav(b"".join((pause + sound).ljust(length, b"\0") for sound in pieces), rate=rate)


def silence(seconds: float, *, rate: int = 16_000) -> bytes:
    """Return a silent WAV file."""
    return wav(bytes(2 * int(seconds * rate)), rate=rate)


def noise(seconds: float) -> bytes:
    """Return a WAV file of noise as loud as speech."""
    dice = random.Random(0)
    second = array("h", (dice.randrange(-6000, 6000) for _ in range(16_000)))
    return wav((second.tobytes() * math.ceil(seconds))[: 2 * int(seconds * 16_000)])


def wav(samples: bytes, *, rate: int = 16_000, num_channels: int = 1) -> bytes:
    """Return 16-bit samples as a WAV file."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(num_channels)
        writer.setsampwidth(2)
        writer.setframerate(rate)
        writer.writeframes(samples)
    return file.getvalue()
