"""Embeddings and transcriptions of another server, and the audio sent to it.

Pure.
"""

import io
import sys
import wave
from array import array

import msgspec

from mlxctl.ir import EmbeddingResult, SpeechSegment, TranscriptionRequest, TranscriptionResult
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


class TranscriptionBody(msgspec.Struct, frozen=True):
    """Body of `POST /v1/audio/transcriptions` as `verbose_json`."""

    segments: list[_TranscriptSegment]
    duration: float
    language: str | None = None

    def result(self) -> TranscriptionResult:
        """Return the transcription that the body describes."""
        segments = tuple(map(_speech_segment, self.segments))
        return TranscriptionResult(language=self.language, duration_seconds=self.duration, segments=segments)


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
