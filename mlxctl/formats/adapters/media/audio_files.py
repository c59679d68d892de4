"""Audio files of requests, decoded by miniaudio as they are read."""

from collections.abc import Iterator
from threading import Event

from mlxctl.ir.errors import InvalidRequest
from mlxctl.ir.transcription import SAMPLE_BYTES, SAMPLE_RATE

MAX_AUDIO_SECONDS = 4 * 60 * 60
"""The longest file; a small one may hold days of silence."""

_MIN_AUDIO_SECONDS = 0.1
_CHUNK_SAMPLES = SAMPLE_RATE
_SUPPORTED = "send WAV, FLAC or MP3"


class AudioFile:
    """One audio file as 16 kHz mono samples.

    `num_samples` is found by decoding the file once. Only the window that is read stays decoded.
    """

    def __init__(self, data: bytes, *, is_cancelled: Event | None = None) -> None:
        """Decode a whole file to find its length. Blocks, unless `is_cancelled`.

        Raises InvalidRequest for data that is no audio, or too much of it.
        """
        _check_kind(data)
        self._data = data
        self._is_cancelled = is_cancelled
        self.num_samples = self._count()
        self._chunks = self._decode()
        self._decoded = bytearray()
        self._start = 0

    @property
    def seconds(self) -> float:
        """Duration of the audio, in seconds."""
        return self.num_samples / SAMPLE_RATE

    def read_window(self, start: int, num_samples: int) -> bytes:
        """Return up to `num_samples` samples from `start` on. Blocks.

        Windows have to advance: `start` is never before that of an earlier window.
        """
        assert start >= self._start, "a file is read forwards"
        while self._start + len(self._decoded) // SAMPLE_BYTES < start + num_samples:
            chunk = next(self._chunks, None)
            if chunk is None:
                break
            self._decoded += chunk
            self._forget_before(start)
        self._forget_before(start)
        return bytes(self._decoded[: num_samples * SAMPLE_BYTES])

    def _forget_before(self, start: int) -> None:
        num_bytes = min((start - self._start) * SAMPLE_BYTES, len(self._decoded))
        del self._decoded[:num_bytes]
        self._start += num_bytes // SAMPLE_BYTES

    def _count(self) -> int:
        num_samples = 0
        for chunk in self._decode():
            num_samples += len(chunk) // SAMPLE_BYTES
            if self._is_cancelled is not None and self._is_cancelled.is_set():
                raise InvalidRequest("file is not needed any more: the client has disconnected", param="file")
            if num_samples > MAX_AUDIO_SECONDS * SAMPLE_RATE:
                limit = f"{MAX_AUDIO_SECONDS // 3600} hours"
                raise InvalidRequest(f"file holds more than {limit} of audio; send it in parts", param="file")
        if num_samples < _MIN_AUDIO_SECONDS * SAMPLE_RATE:
            message = (
                f"file holds {num_samples / SAMPLE_RATE:.2f} seconds of audio; "
                f"at least {_MIN_AUDIO_SECONDS} are needed"
            )
            raise InvalidRequest(message, param="file")
        return num_samples

    def _decode(self) -> Iterator[bytes]:
        import miniaudio

        try:
            chunks = miniaudio.stream_memory(
                self._data, nchannels=1, sample_rate=SAMPLE_RATE, frames_to_read=_CHUNK_SAMPLES
            )  # signed 16 bits are its default
            yield from (chunk.tobytes() for chunk in chunks)
        except miniaudio.MiniaudioError as error:
            # miniaudio's messages are names of its functions with numbers.
            message = f"file is damaged, or of an unsupported kind; {_SUPPORTED}"
            raise InvalidRequest(message, param="file") from error


def _check_kind(data: bytes) -> None:
    """Raise InvalidRequest unless the data begins like a supported kind.

    A decoder that guesses finds audio in any data.
    """
    head = data[:12]
    is_mp3 = head[:3] == b"ID3" or (len(head) > 1 and head[0] == 0xFF and head[1] & 0xE6 == 0xE2)
    is_wav = head[:4] == b"RIFF" and head[8:12] == b"WAVE"
    if is_mp3 or is_wav or head[:4] == b"fLaC":
        return
    raise InvalidRequest(f"file {_name(head)}; {_SUPPORTED}", param="file")


def _name(head: bytes) -> str:
    if not head:
        return "is empty"
    if head[4:8] == b"ftyp":
        return "is MP4 (M4A), which is not supported"
    if head[:4] == b"\x1a\x45\xdf\xa3":
        return "is WebM or Matroska, which is not supported"
    if head[:4] == b"OggS":
        return "is Ogg, which is not supported"
    return "is no supported audio file"
