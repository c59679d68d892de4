"""Sound files for tests: what a voice says, and silence."""

import io
import wave

from mlxctl.probe.speech_samples import find_synthesizer


def say(*sentences: str, pause_seconds: float = 0.4, every_seconds: float | None = None) -> bytes:
    """Give a WAV file in which these are said, with a pause before each and at the end; or one begun every so
    many seconds.
    """
    voice = find_synthesizer()
    assert voice is not None, "the extra `test` brings a voice"
    rate, said = 0, []
    for sentence in sentences:
        with wave.open(io.BytesIO(voice(sentence))) as reader:
            rate = reader.getframerate()
            said.append(reader.readframes(reader.getnframes()))
    pause = bytes(2 * int(pause_seconds * rate))
    if every_seconds is None:
        return wav(pause + b"".join(sound + pause for sound in said), rate=rate)
    length = 2 * int(every_seconds * rate)
    return wav(b"".join((pause + sound).ljust(length, b"\0") for sound in said), rate=rate)


def silence(seconds: float, *, rate: int = 16_000) -> bytes:
    """Give a WAV file in which nothing is said."""
    return wav(bytes(2 * int(seconds * rate)), rate=rate)


def wav(samples: bytes, *, rate: int = 16_000, num_channels: int = 1) -> bytes:
    """Give samples of 16 bits as a WAV file."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(num_channels)
        writer.setsampwidth(2)
        writer.setframerate(rate)
        writer.writeframes(samples)
    return file.getvalue()
