"""Decoders of audio files: miniaudio, libsndfile, and macOS itself.

Each yields 16 kHz mono samples in pieces, so that no file is decoded whole into memory. They block.
"""

import io
import shutil
import subprocess
import tempfile
import time
import wave
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from mlxctl.ir.audio_format import audio_media_type
from mlxctl.ir.errors import InvalidRequest
from mlxctl.ir.transcription import SAMPLE_BYTES, SAMPLE_RATE

Decoder = Callable[[bytes], Iterator[bytes]]
"""Yields the samples of a file's bytes, from the beginning each time it is called."""

SUPPORTED = "send WAV, FLAC, MP3 or Ogg"
_DAMAGED = f"file is damaged, or of an unsupported kind; {SUPPORTED}"
# Samples that are decoded at once: a second.
_PIECE_SAMPLES = SAMPLE_RATE
# Bounds of files whose header claims more.
_MAX_CHANNELS = 8
_MAX_RATE = 192_000
# SEC: of a file that macOS decodes, in seconds.
_MAX_CONVERSION_SECONDS = 120.0
_POLL_SECONDS = 0.05


def find_decoder(data: bytes, *, max_seconds: int) -> Decoder:
    """Return the decoder for a file, chosen by its first bytes.

    A decoder that guesses finds audio in any data. `max_seconds` of audio bound what macOS may write. Raises
    InvalidRequest for other kinds.
    """
    kind = audio_media_type(data)
    if kind in ("audio/mp3", "audio/wav", "audio/flac"):
        return _with_miniaudio
    if kind == "audio/ogg":
        return _with_libsndfile
    name, suffix = _CONTAINERS.get(kind, ("is no supported audio file" if data else "is empty", ""))
    program = shutil.which("afconvert") if suffix else None
    if program is None:
        remedy = f"{SUPPORTED}, such as `ffmpeg -i FILE -ac 1 -ar 16000 speech.wav` writes"
        raise InvalidRequest(f"file {name}; {remedy if suffix else SUPPORTED}", param="file")
    max_bytes = (max_seconds + 1) * SAMPLE_RATE * SAMPLE_BYTES
    return _WaveFile(_converted(program, data, suffix, max_bytes=max_bytes))


# What a file is, and its suffix for macOS.
_CONTAINERS: Mapping[str | None, tuple[str, str]] = {
    "audio/mp4": ("is MP4 (M4A), which is decoded on macOS only", ".m4a"),
    "audio/webm": ("is WebM or Matroska, which is decoded only where macOS can", ".webm"),
    "audio/aac": ("is AAC, which is decoded on macOS only", ".aac"),
}


def _with_miniaudio(data: bytes) -> Iterator[bytes]:
    import miniaudio

    try:
        pieces = miniaudio.stream_memory(
            data, nchannels=1, sample_rate=SAMPLE_RATE, frames_to_read=_PIECE_SAMPLES
        )  # signed 16 bits are its default
        yield from (piece.tobytes() for piece in pieces)
    except miniaudio.MiniaudioError as error:
        # miniaudio's messages are names of its functions with numbers.
        raise InvalidRequest(_DAMAGED, param="file") from error


def _with_libsndfile(data: bytes) -> Iterator[bytes]:
    """Yield the samples of a file that libsndfile reads.

    Pieces are resampled with the second before them, whose samples are then dropped: at its first samples a
    resampler has no past.
    """
    import numpy as np
    import soundfile

    try:
        with soundfile.SoundFile(io.BytesIO(data)) as file:
            rate, channels = file.samplerate, file.channels
            if not 0 < channels <= _MAX_CHANNELS or not 0 < rate <= _MAX_RATE:
                message = f"file has {channels} channels at {rate} Hz, which is no speech; {SUPPORTED}"
                raise InvalidRequest(message, param="file")
            before: Any = np.zeros((0, channels), np.int16)
            while len(piece := file.read(rate, dtype="int16", always_2d=True)):
                samples = _resampled(np.concatenate([before, piece]), rate)
                first = SAMPLE_RATE if len(before) else 0
                end = first + len(piece) * SAMPLE_RATE // rate
                yield samples[first * SAMPLE_BYTES : end * SAMPLE_BYTES]
                before = piece
    except soundfile.SoundFileError as error:
        raise InvalidRequest(_DAMAGED, param="file") from error


def _resampled(samples: Any, rate: int) -> bytes:
    """Return int16 samples (frames, channels) at the rate of models.

    They are mixed to one channel.
    """
    import miniaudio

    kind = miniaudio.SampleFormat.SIGNED16
    data: bytes = bytes(
        miniaudio.convert_frames(kind, samples.shape[1], rate, samples.tobytes(), kind, 1, SAMPLE_RATE)
    )
    return data


class _WaveFile:
    """Decodes an open WAV file, closed with this object.

    It has the rate and the channel of models.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        weakref.finalize(self, file.close)

    def __call__(self, _: bytes) -> Iterator[bytes]:
        self._file.seek(0)
        try:
            with wave.open(self._file) as reader:
                while piece := reader.readframes(_PIECE_SAMPLES):
                    yield piece
        except (wave.Error, EOFError) as error:
            raise InvalidRequest(_DAMAGED, param="file") from error


def _converted(program: str, data: bytes, suffix: str, *, max_bytes: int) -> BinaryIO:
    """Return a WAV file that a program of macOS has decoded.

    It has no name any more.
    It stays on the disk: four hours are 460 MB. Raises InvalidRequest for a file that is not decoded, or that
    takes too long.
    """
    with tempfile.TemporaryDirectory(prefix="mlxctl-audio-") as directory:
        source, target = Path(directory, f"in{suffix}"), Path(directory, "out.wav")
        source.write_bytes(data)
        command = [program, "-f", "WAVE", "-d", f"LEI16@{SAMPLE_RATE}", "-c", "1", str(source), str(target)]
        process = subprocess.Popen(  # noqa: S603 -- a program of the system, without a shell
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until = time.monotonic() + _MAX_CONVERSION_SECONDS
        try:
            while process.poll() is None:
                size = target.stat().st_size if target.exists() else 0
                if size > max_bytes or time.monotonic() > until:
                    break
                time.sleep(_POLL_SECONDS)
            is_good = process.poll() == 0 and target.exists() and target.stat().st_size <= max_bytes
        finally:
            process.kill()
            process.wait()
        if not is_good:
            message = f"file cannot be decoded by macOS, is too long, or takes too long; {SUPPORTED}"
            raise InvalidRequest(message, param="file")
        return target.open("rb")
