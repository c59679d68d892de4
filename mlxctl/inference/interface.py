"""Interface of inference, by a local engine or a remote server."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from mlxctl.inference.request_entry import RequestView
from mlxctl.ir import (
    EmbeddingRequest,
    EmbeddingResult,
    GenerationRequest,
    SegmentObserver,
    SpeechChunk,
    SpeechRequest,
    StreamEvent,
    TextResult,
    TranscriptionRequest,
    TranscriptionResult,
    Usage,
)


class ModelInfo(Protocol):
    """A model that requests can name; None is an unknown property.

    `context_length` is in tokens.
    """

    @property
    def name(self) -> str: ...
    @property
    def context_length(self) -> int | None: ...
    @property
    def supports_tools(self) -> bool | None: ...
    @property
    def supports_thinking(self) -> bool | None: ...
    @property
    def supports_images(self) -> bool | None: ...
    @property
    def is_demo(self) -> bool: ...
    @property
    def can_speak(self) -> bool: ...
    @property
    def voices(self) -> tuple[str, ...]: ...


class AnswerStream(Protocol):
    """One answer as it is generated.

    Iterates over lists of events; the last event of the last list is Finished. Raises EngineError when the
    answer cannot be finished. Its holder must `cancel` it at the end, however the answer ended.
    """

    def __aiter__(self) -> AsyncIterator[list[StreamEvent]]: ...

    async def result(self) -> TextResult:
        """Wait for the end and return the whole answer."""

    def cancel(self) -> None:
        """Stop generating this answer."""


class OpenAnswer(AnswerStream, Protocol):
    """One answer, with what protocols and guardrails need."""

    async def __anext__(self) -> list[StreamEvent]: ...

    @property
    def prompt_usage(self) -> Usage:
        """Token counts of the prompt, as far as they are known."""

    @property
    def usage(self) -> Usage:
        """Token counts so far."""

    def nudge(self) -> None:
        """Wake the waiting iteration.

        It gets an empty list if there is no event.
        """

    def refuse(self) -> None:
        """Stop the answer: a guardrail ends it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceStats:
    """Counters as `GET /stats` returns them, and requests as `GET /requests` does."""

    counters: Mapping[str, Any]
    requests: tuple[RequestView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheEntry:
    """A chunk of the prefix cache, as `GET /cache` lists it.

    `used_at` is in unix seconds, None before its first use. `text` is None where it is unknown.
    """

    num_tokens: int
    memory_bytes: int
    disk_bytes: int
    num_hits: int
    num_images: int = 0
    used_at: float | None = None
    text: str | None = None


class Inference(Protocol):
    """Answers requests. Event-loop thread only.

    Methods raise RequestError for invalid requests, CapacityError when they can be repeated later, and
    EngineError when an answer failed; a remote one also ServerUnreachable and AuthenticationFailed.
    """

    async def wait_ready(self) -> None:
        """Wait until requests are accepted. Raises ModelError, EngineDied."""

    def models(self) -> Sequence[ModelInfo]:
        """Return the models that requests can name, the default one first.

        `wait_ready` comes before.
        """

    async def generate(self, request: GenerationRequest) -> AnswerStream:
        """Start one answer to a conversation."""

    async def embed(self, request: EmbeddingRequest) -> EmbeddingResult:
        """Return a vector for each text: all of them, or none."""

    async def transcribe(
        self, request: TranscriptionRequest, *, on_segments: SegmentObserver | None = None
    ) -> TranscriptionResult:
        """Transcribe an audio file; `on_segments` gets segments as they are found."""

    def speak(self, request: SpeechRequest) -> AsyncGenerator[SpeechChunk, None]:
        """Speak a text. Closing the iterator cancels the rest."""

    async def count_tokens(self, request: GenerationRequest) -> int:
        """Count the tokens of a prompt, which may exceed the context length."""

    async def stats(self) -> InferenceStats:
        """Return counters and requests."""

    async def cached_entries(self, limit: int) -> Sequence[CacheEntry]:
        """Return the entries of the prefix cache, the most recently used first."""

    async def cancel(self, request_id: str) -> list[int]:
        """Cancel an open request; return the numbers of its answers."""
