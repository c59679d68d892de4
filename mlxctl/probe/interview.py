"""Requests to a loaded model, with raw transcripts as evidence."""

import asyncio
import io
import math
import time
import wave
from array import array
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from mlxctl.engine import AudioWindow, EngineClient, ModelLoaded, Speak
from mlxctl.formats.adapters import ModelAdapter, PreparedInput, create_adapter
from mlxctl.formats.adapters.media.audio_files import AudioFile
from mlxctl.inference.session import ModelSession
from mlxctl.inference.transcription.segmentation import whisper_text
from mlxctl.ir import (
    Collector,
    FinishReason,
    GenerationRequest,
    ModelCapabilities,
    ModelFacts,
    SamplingOptions,
    TextResult,
)
from mlxctl.ir.errors import DeadlineExceeded, EngineDied, ModelError
from mlxctl.probe.observer import ProbeObserver
from mlxctl.state.stores import Exchange

GREEDY = SamplingOptions(temperature=0.0, seed=0)
UNKNOWN_CAPABILITIES = ModelCapabilities()

# The name of the transcription model in the engine.
_LISTENER = "listener"
_RESTART_SECONDS = 30.0
# Number of a vector's components that are kept as evidence.
_NUM_SHOWN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeTranscript:
    """One generation, raw and parsed.

    `output` is the raw text with special tokens.
    """

    request: GenerationRequest
    prepared: PreparedInput
    prompt: str
    output: str
    token_ids: tuple[int, ...]
    result: TextResult
    duration_seconds: float

    @property
    def is_cut_off(self) -> bool:
        """Whether the answer ended at max_tokens."""
        return self.result.reason == "length"

    @property
    def is_all_thinking(self) -> bool:
        """Whether max_tokens was reached before any text."""
        return self.is_cut_off and bool(self.result.thinking) and not self.result.text

    def evidence(self, *, parser_id: str | None = None) -> Exchange:
        """Return the evidence to store, with the parser that parsed it."""
        return Exchange(
            prompt=self.prompt,
            output=self.output,
            parser_id=parser_id,
            num_tokens=len(self.token_ids),
            duration_seconds=round(self.duration_seconds, 3),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeVector:
    """Embedding of a text; `duration_seconds` is that of the whole batch."""

    numbers: tuple[float, ...]
    num_tokens: int
    duration_seconds: float

    def evidence(self, text: str) -> Exchange:
        """Return the evidence to store."""
        first = ", ".join(f"{number:.4f}" for number in self.numbers[:_NUM_SHOWN])
        output = f"{len(self.numbers)} numbers of length {math.hypot(*self.numbers):.4f}: {first}, …"
        duration_seconds = round(self.duration_seconds, 3)
        return Exchange(
            prompt=text, output=output, num_tokens=self.num_tokens, duration_seconds=duration_seconds
        )


class Interview:
    """Sends probe requests to one loaded model. Event-loop thread only."""

    def __init__(
        self,
        engine: EngineClient,
        model: str,
        facts: ModelFacts,
        *,
        deadline_seconds: float,
        observer: ProbeObserver,
        listener: ModelFacts | None = None,
    ) -> None:
        """Use a model that `engine` has loaded.

        An answer may take at most `deadline_seconds`. `listener` is a transcription model that hears what a
        speech model says.
        """
        self._engine, self._listener = engine, listener
        self._ear: ModelSession | None = None
        self.model = model
        self.facts = facts
        self._adapters: dict[ModelCapabilities, ModelAdapter] = {}
        self._session = ModelSession(engine, self.adapter(), name=model)
        self.loaded: ModelLoaded = self._session.loaded
        self._deadline_seconds = deadline_seconds
        self._observer = observer

    @property
    def memory_limit_bytes(self) -> int:
        """Bytes that weights and caches may take together."""
        return self._session.memory_limit_bytes

    def adapter(self, capabilities: ModelCapabilities = UNKNOWN_CAPABILITIES) -> ModelAdapter:
        """Return the adapter that would serve the model with these capabilities."""
        # A large vocabulary takes seconds to load, and every check needs an adapter.
        if capabilities not in self._adapters:
            self._adapters[capabilities] = create_adapter(
                self.facts, name=self.model, capabilities=capabilities
            )
        return self._adapters[capabilities]

    async def ask(self, adapter: ModelAdapter, request: GenerationRequest) -> ProbeTranscript:
        """Generate one answer. Raises RequestError, CapacityError and EngineError."""
        return (await self.ask_together(adapter, [request]))[0]

    async def ask_together(
        self, adapter: ModelAdapter, requests: Sequence[GenerationRequest]
    ) -> list[ProbeTranscript]:
        """Generate the answers to all requests in one batch."""
        await self._wait_for_engine()
        try:
            async with asyncio.timeout(self._deadline_seconds):
                prepared = [await asyncio.to_thread(prepare, adapter, request) for request in requests]
                pairs = zip(requests, prepared, strict=True)
                return list(await asyncio.gather(*(self._generate(adapter, *pair) for pair in pairs)))
        except TimeoutError:
            raise DeadlineExceeded(f"the answer took longer than {self._deadline_seconds:g} s") from None

    async def embed(self, texts: Sequence[Sequence[int]]) -> list[ProbeVector]:
        """Embed texts of token ids in one request. Raises CapacityError and EngineError."""
        await self._wait_for_engine()
        started = time.monotonic()
        try:
            async with asyncio.timeout(self._deadline_seconds):
                packed = await self._session.embed(texts)
        except TimeoutError:
            raise DeadlineExceeded(f"embedding took longer than {self._deadline_seconds:g} s") from None
        self._observer.tokens_generated(sum(map(len, texts)))
        duration_seconds = time.monotonic() - started
        return [
            ProbeVector(
                numbers=tuple(array("f", vector)), num_tokens=len(text), duration_seconds=duration_seconds
            )
            for vector, text in zip(packed, texts, strict=True)
        ]

    async def transcribe(self, audio: AudioFile, description: str) -> Exchange:
        """Transcribe audio that fits into one window.

        `description` is kept as its prompt. Raises as `embed`.
        """
        recipe = self.facts.transcription
        assert recipe is not None, "only transcription models are probed with audio"
        await self._wait_for_engine()
        started = time.monotonic()
        samples = await asyncio.to_thread(audio.read_window, 0, recipe.window_samples)
        tokens = recipe.whisper
        window = AudioWindow(
            model=self.model,
            samples=samples,
            language_id=tokens.languages.get("en") if tokens else None,
            language="en" if recipe.languages and "en" in recipe.languages else None,
        )
        try:
            async with asyncio.timeout(self._deadline_seconds):
                result = await self._session.transcribe(window)
        except TimeoutError:
            raise DeadlineExceeded(f"transcription took longer than {self._deadline_seconds:g} s") from None
        self._observer.tokens_generated(len(result.token_ids))
        bytes_of = self.adapter().vocabulary.bytes_of
        text = whisper_text(result.token_ids, tokens, bytes_of) if tokens else result.text
        return Exchange(
            prompt=description,
            output=text.strip(),
            num_tokens=len(result.token_ids),
            duration_seconds=round(time.monotonic() - started, 3),
        )

    async def speak(self, command: Callable[..., Speak]) -> tuple[bytes, int]:
        """Speak one text; return its samples and the number of audio tokens.

        Raises as `embed`.
        """
        await self._wait_for_engine()
        samples, num_tokens = [], 0
        try:
            async with (
                asyncio.timeout(self._deadline_seconds),
                aclosing(self._session.stream_job(command)) as spoken,
            ):
                async for report in spoken:
                    samples.append(report.samples)
                    num_tokens += report.num_audio_tokens
                    self._observer.tokens_generated(report.num_audio_tokens)
        except TimeoutError:
            raise DeadlineExceeded(f"speech took longer than {self._deadline_seconds:g} s") from None
        return b"".join(samples), num_tokens

    async def hear(self, samples: bytes, sample_rate: int) -> str | None:
        """Return the text that the listener hears in samples.

        Samples are as `speak` returns them. None without a listener, and where memory does not suffice for
        it. Raises as `embed`.
        """
        facts = self._listener
        if facts is None or facts.transcription is None:
            return None
        if self._ear is None:
            try:
                await self._engine.load(facts.spec(_LISTENER))
            except ModelError:
                self._listener = None
                return None
            self._ear = ModelSession(self._engine, create_adapter(facts, name=_LISTENER), name=_LISTENER)
        audio = AudioFile(_wav(samples, sample_rate))
        recipe = facts.transcription
        window = AudioWindow(
            model=_LISTENER,
            samples=await asyncio.to_thread(audio.read_window, 0, recipe.window_samples),
            language_id=recipe.whisper.languages.get("en") if recipe.whisper else None,
            language="en" if recipe.languages and "en" in recipe.languages else None,
        )
        async with asyncio.timeout(self._deadline_seconds):
            result = await self._ear.transcribe(window)
        bytes_of = self._ear.reader.tokens.bytes_of
        tokens = recipe.whisper
        text = whisper_text(result.token_ids, tokens, bytes_of) if tokens else result.text
        return text.strip()

    async def _wait_for_engine(self) -> None:
        """Wait for a restarting engine, for a bounded time."""
        wait_seconds = min(self._deadline_seconds, _RESTART_SECONDS + 3 * self.loaded.load_seconds)
        try:
            async with asyncio.timeout(wait_seconds):
                await self._session.wait_ready()
        except TimeoutError:
            raise EngineDied("the engine died and did not come back") from None

    async def _generate(
        self, adapter: ModelAdapter, request: GenerationRequest, prepared: PreparedInput
    ) -> ProbeTranscript:
        started = time.monotonic()
        session = self._session.with_reader(adapter)
        token_ids, reason = await session.complete(
            request, prepared, on_tokens=self._observer.tokens_generated
        )
        output_ids = [token_id for token_id in token_ids if token_id not in prepared.stop_token_ids]
        return ProbeTranscript(
            request=request,
            prepared=prepared,
            prompt=raw_text(adapter, prepared.token_ids),
            output=raw_text(adapter, output_ids),
            token_ids=tuple(token_ids),
            result=read(adapter, request, prepared, token_ids, reason),
            duration_seconds=time.monotonic() - started,
        )


def _wav(samples: bytes, sample_rate: int) -> bytes:
    """Return float32 samples as a WAV file of 16 bits."""
    import numpy as np

    values = np.frombuffer(samples, "<f4").clip(-1, 1) * 32767
    with io.BytesIO() as file, wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(sample_rate)
        writer.writeframes(values.astype("<i2").tobytes())
        writer.close()
        return file.getvalue()


def prepare(adapter: ModelAdapter, request: GenerationRequest) -> PreparedInput:
    """Prepare a request as inference does. Raises InvalidRequest, ContextTooLong."""
    return adapter.prepare_input(adapter.normalized(request))


def read(
    adapter: ModelAdapter,
    request: GenerationRequest,
    prepared: PreparedInput,
    token_ids: Sequence[int],
    reason: FinishReason = "stop",
) -> TextResult:
    """Parse generated ids as inference does."""
    processor = adapter.create_stream_processor(request, prepared)
    collector = Collector()
    for event in [*processor.feed(token_ids), *processor.finish("length" if reason == "length" else "stop")]:
        collector.add(event)
    return collector.result()


def raw_text(adapter: ModelAdapter, token_ids: Sequence[int]) -> str:
    """Return the text of all tokens, special ones included."""
    detokenizer = adapter.vocabulary.detokenizer(is_continuation=True)
    return "".join(map(detokenizer.feed, token_ids)) + detokenizer.finish()
