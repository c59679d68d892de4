"""Inference by an engine of this process, for its operator.

Event-loop thread only.
"""

from collections.abc import AsyncGenerator, Sequence

import msgspec

from mlxctl.inference.call_context import operator_call
from mlxctl.inference.interface import CacheEntry, InferenceStats, OpenAnswer
from mlxctl.inference.models.served_model import ServedModel
from mlxctl.inference.preparation import PackedRequest
from mlxctl.inference.preparation.packed_request import PackedTexts
from mlxctl.inference.service import InferenceService
from mlxctl.ir import (
    EmbeddingRequest,
    EmbeddingResult,
    GenerationRequest,
    SegmentObserver,
    SpeechChunk,
    SpeechRequest,
    SpeechSegment,
    TranscriptionRequest,
    TranscriptionResult,
)
from mlxctl.ir.allowed_models import EVERY_MODEL
from mlxctl.ir.transcription import SAMPLE_RATE


class LocalInference:
    """`Inference` with every model of a service.

    Methods raise what those of the service do.
    """

    def __init__(self, service: InferenceService) -> None:
        self._service = service

    async def wait_ready(self) -> None:
        """Wait until requests are accepted."""
        await self._service.wait_ready()

    def models(self) -> tuple[ServedModel, ...]:
        """Return the models that requests can name, the default one first."""
        return self._service.models.served(EVERY_MODEL)

    async def generate(self, request: GenerationRequest) -> OpenAnswer:
        """Start one answer to a conversation."""
        answers = await self._service.generate_all(PackedRequest.of(request), operator_call())
        assert len(answers.generations) == 1, "requests for several answers go to `generate_all`"
        return answers.generations[0]

    async def embed(self, request: EmbeddingRequest) -> EmbeddingResult:
        """Return a vector for each text: all of them, or none."""
        return await self._service.embed(PackedTexts.of(request), operator_call())

    async def transcribe(
        self, request: TranscriptionRequest, *, on_segments: SegmentObserver | None = None
    ) -> TranscriptionResult:
        """Transcribe an audio file; `on_segments` gets segments as they are found."""
        duration = request.num_samples / SAMPLE_RATE

        def tell(segments: Sequence[SpeechSegment]) -> None:
            if on_segments is not None:
                on_segments(segments, duration)

        return await self._service.transcribe(request, operator_call(), on_segments=tell)

    def speak(self, request: SpeechRequest) -> AsyncGenerator[SpeechChunk, None]:
        """Speak a text. Closing the iterator cancels the rest."""
        return self._service.speak(request, operator_call())

    async def count_tokens(self, request: GenerationRequest) -> int:
        """Count the tokens of a prompt, which may exceed the context length."""
        return await self._service.tokenization.count(PackedRequest.of(request), operator_call())

    async def stats(self) -> InferenceStats:
        """Return the engine's counters and all requests."""
        counters = msgspec.to_builtins(await self._service.engine_stats())
        counters["vision_seconds"] = self._service.vision_seconds
        return InferenceStats(counters=counters, requests=tuple(self._service.requests(EVERY_MODEL)))

    async def cached_entries(self, limit: int) -> list[CacheEntry]:
        """Return the entries of the prefix cache, the most recently used first."""
        return await self._service.cache.entries(operator_call(), limit)

    async def cancel(self, request_id: str) -> list[int]:
        """Cancel an open request and return the numbers of its answers."""
        return self._service.cancel(request_id, EVERY_MODEL)
