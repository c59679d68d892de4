"""Embeddings and transcriptions of another server, and the audio sent to it.

Pure.
"""

import io
import sys
import wave
from array import array
from dataclasses import replace

import msgspec

from mlxctl.ir import EmbeddingResult, SpeechSegment, TimedWord, TranscriptionRequest, TranscriptionResult
from mlxctl.ir.errors import InvalidRequest
from mlxctl.ir.transcription import SAMPLE_BYTES, SAMPLE_RATE

_MAX_AUDIO_BYTES = 100 * 1024**2


class _Embedding(msgspec.Struct, frozen=True):
    embedding: list[float]


class _EmbeddingUsage(msgspec.Struct, frozen=True):
    prompt_tokens: int = 0


class EmbeddingsBody(msgspec.Struct, frozen=True):
    """Body of `POST /v1/embeddings`."""

    data: list[_Embedding]
    model: str = ""
    usage: _EmbeddingUsage = _EmbeddingUsage()

    def result(self) -> EmbeddingResult:
        """Return the vectors as packed float32."""
        vectors = tuple(array("f", item.embedding).tobytes() for item in self.data)
        return EmbeddingResult(model=self.model, vectors=vectors, num_prompt_tokens=self.usage.prompt_tokens)


class _TranscriptSegment(msgspec.Struct, frozen=True):
    start: float
    end: float
    text: str
    tokens: tuple[int, ...] = ()
    seek: int = 0
    temperature: float = 0.0
    avg_logprob: float = 0.0
    compression_ratio: float = 0.0
    no_speech_prob: float = 0.0


class _TranscriptWord(msgspec.Struct, frozen=True):
    word: str
    start: float
    end: float


class TranscriptionBody(msgspec.Struct, frozen=True):
    """Body of `POST /v1/audio/transcriptions` as `verbose_json`."""

    segments: list[_TranscriptSegment]
    duration: float
    language: str | None = None
    words: list[_TranscriptWord] = []

    def result(self) -> TranscriptionResult:
        """Return the transcription that the body describes."""
        segments = tuple(replace(_speech_segment(each), words=self._words_of(each)) for each in self.segments)
        return TranscriptionResult(language=self.language, duration_seconds=self.duration, segments=segments)

    def _words_of(self, segment: _TranscriptSegment) -> tuple[TimedWord, ...]:
        """Return the words that begin in a segment."""
        return tuple(
            TimedWord(text=f" {word.word}", start=word.start, end=word.end)
            for word in self.words
            if segment.start <= word.start < segment.end
        )


def audio_suffix(data: bytes) -> str:
    """Return the suffix of an audio file by its first bytes."""
    kinds = {b"RIFF": ".wav", b"fLaC": ".flac", b"OggS": ".ogg", b"\x1a\x45\xdf\xa3": ".webm"}
    return kinds.get(data[:4], ".m4a" if data[4:8] == b"ftyp" else ".mp3")


def wav_file(request: TranscriptionRequest) -> bytes:
    """Return the request's samples as a WAV file. Blocks.

    Raises InvalidRequest for too many samples.
    """
    if request.num_samples * SAMPLE_BYTES > _MAX_AUDIO_BYTES:
        raise InvalidRequest(
            f"file has more than {_MAX_AUDIO_BYTES} bytes of samples; send it in parts", param="file"
        )
    samples = array("h", request.read_window(0, request.num_samples))
    if sys.byteorder == "big":
        samples.byteswap()
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(SAMPLE_BYTES)
        writer.setframerate(SAMPLE_RATE)
        writer.writeframes(samples.tobytes())
    return file.getvalue()


def _speech_segment(segment: _TranscriptSegment) -> SpeechSegment:
    return SpeechSegment(
        start=segment.start,
        end=segment.end,
        text=segment.text,
        token_ids=segment.tokens,
        seek=segment.seek,
        temperature=segment.temperature,
        mean_logprob=segment.avg_logprob,
        compression_ratio=segment.compression_ratio,
        no_speech=segment.no_speech_prob,
    )
