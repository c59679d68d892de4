"""Asks a loaded model, through the adapter and the engine that inference uses, and keeps what was said to the
letter.
"""

import asyncio
import math
import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from mlxctl.adapters import ModelAdapter, PreparedInput, create_adapter
from mlxctl.adapters.media.audio_files import AudioFile
from mlxctl.engine import AudioWindow, EngineClient, ModelLoaded
from mlxctl.errors import DeadlineExceeded, EngineDied
from mlxctl.ir import (
    Collector,
    FinishReason,
    GenerationRequest,
    ModelCapabilities,
    ModelFacts,
    SamplingOptions,
    TextResult,
)
from mlxctl.probe.observer import Watcher
from mlxctl.stores import Exchange

GREEDY = SamplingOptions(temperature=0.0, seed=0)
UNKNOWN_CAPABILITIES = ModelCapabilities()

_PATIENCE_SECONDS = 30.0
# Of a vector's numbers, those that are kept as evidence.
_NUM_SHOWN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeTranscript:
    """One generation.

    `output` is the raw text, special tokens included; `result` is what the adapter read in it.
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
        """Whether the model would have gone on."""
        return self.result.reason == "length"

    @property
    def is_all_thinking(self) -> bool:
        """Whether the model was cut off before it said anything."""
        return self.is_cut_off and bool(self.result.thinking) and not self.result.text

    def evidence(self, *, parser_id: str | None = None) -> Exchange:
        """Return what is kept of it, with the parser that could read it."""
        return Exchange(
            prompt=self.prompt,
            output=self.output,
            parser_id=parser_id,
            num_tokens=len(self.token_ids),
            duration_seconds=round(self.duration_seconds, 3),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Vector:
    """What came of embedding a text; `duration_seconds` is that of all texts that were embedded with it."""

    numbers: tuple[float, ...]
    num_tokens: int
    duration_seconds: float

    def evidence(self, text: str) -> Exchange:
        """Return what is kept of it."""
        first = ", ".join(f"{number:.4f}" for number in self.numbers[:_NUM_SHOWN])
        output = f"{len(self.numbers)} numbers of length {math.hypot(*self.numbers):.4f}: {first}, …"
        duration_seconds = round(self.duration_seconds, 3)
        return Exchange(
            prompt=text, output=output, num_tokens=self.num_tokens, duration_seconds=duration_seconds
        )


class Interview:
    """A model that answers.

    Event-loop thread only; `loaded` is what the engine measured when it loaded the model.
    """

    def __init__(
        self,
        client: EngineClient,
        model: str,
        facts: ModelFacts,
        *,
        deadline_seconds: float,
        watcher: Watcher,
    ) -> None:
        """Take a model that `client` has loaded; `deadline_seconds` is the longest time that one answer may
        take.
        """
        self.model = model
        self.facts = facts
        self.loaded: ModelLoaded = client.loaded[model]
        self._client = client
        self._adapters: dict[ModelCapabilities, ModelAdapter] = {}
        self._deadline_seconds = deadline_seconds
        self._watcher = watcher

    @property
    def memory_limit_bytes(self) -> int:
        """What weights and caches may take together."""
        hello = self._client.hello
        assert hello is not None, "the engine is up"
        return hello.memory_limit_bytes

    def adapter(self, capabilities: ModelCapabilities = UNKNOWN_CAPABILITIES) -> ModelAdapter:
        """Return the adapter with which the model would be served if this were known of it."""
        # A large vocabulary takes a moment to load, and every check wants an adapter.
        if capabilities not in self._adapters:
            self._adapters[capabilities] = create_adapter(
                self.facts, name=self.model, capabilities=capabilities
            )
        return self._adapters[capabilities]

    async def ask(self, adapter: ModelAdapter, request: GenerationRequest) -> ProbeTranscript:
        """Have the model answer. Raises RequestError, CapacityError and EngineError."""
        return (await self.ask_together(adapter, [request]))[0]

    async def ask_together(
        self, adapter: ModelAdapter, requests: Sequence[GenerationRequest]
    ) -> list[ProbeTranscript]:
        """Have the model answer all of them in one batch."""
        await self._wait_for_engine()
        try:
            async with asyncio.timeout(self._deadline_seconds):
                prepared = [await asyncio.to_thread(adapter.prepare_input, request) for request in requests]
                pairs = zip(requests, prepared, strict=True)
                return list(await asyncio.gather(*(self._generate(adapter, *pair) for pair in pairs)))
        except TimeoutError:
            raise DeadlineExceeded(f"the answer took longer than {self._deadline_seconds:g} s") from None

    async def embed(self, texts: Sequence[Sequence[int]]) -> list[Vector]:
        """Have the model embed texts, given as token ids, in one request.

        Raises CapacityError and EngineError.
        """
        await self._wait_for_engine()
        started = time.monotonic()
        try:
            async with asyncio.timeout(self._deadline_seconds):
                packed = await self._client.embed(model=self.model, texts=texts)
        except TimeoutError:
            raise DeadlineExceeded(f"embedding took longer than {self._deadline_seconds:g} s") from None
        self._watcher.heard(sum(map(len, texts)))
        duration_seconds = time.monotonic() - started
        return [
            Vector(numbers=tuple(array("f", vector)), num_tokens=len(text), duration_seconds=duration_seconds)
            for vector, text in zip(packed, texts, strict=True)
        ]

    async def hear(self, sound: AudioFile, what: str) -> Exchange:
        """Have the model write down a sound that fits into its window; `what` tells people what it holds.

        Raises as `embed`.
        """
        recipe = self.facts.transcription
        assert recipe is not None, "only speech models are asked this"
        await self._wait_for_engine()
        started = time.monotonic()
        samples = await asyncio.to_thread(sound.read_window, 0, recipe.window_samples)
        window = AudioWindow(model=self.model, samples=samples, language_id=recipe.languages.get("en"))
        try:
            async with asyncio.timeout(self._deadline_seconds):
                written = await self._client.transcribe(window)
        except TimeoutError:
            raise DeadlineExceeded(f"writing it down took longer than {self._deadline_seconds:g} s") from None
        self._watcher.heard(len(written.token_ids))
        words = [token_id for token_id in written.token_ids if token_id < recipe.end]
        return Exchange(
            prompt=what,
            output=b"".join(map(self.adapter().vocabulary.bytes_of, words)).decode(errors="replace").strip(),
            num_tokens=len(written.token_ids),
            duration_seconds=round(time.monotonic() - started, 3),
        )

    async def _wait_for_engine(self) -> None:
        """After a death it takes a moment, and loading the model again, to come back; one that does not is
        not waited for.
        """
        patience_seconds = min(self._deadline_seconds, _PATIENCE_SECONDS + 3 * self.loaded.load_seconds)
        try:
            async with asyncio.timeout(patience_seconds):
                await self._client.wait_ready()
        except TimeoutError:
            raise EngineDied("the engine died and did not come back") from None

    async def _generate(
        self, adapter: ModelAdapter, request: GenerationRequest, prepared: PreparedInput
    ) -> ProbeTranscript:
        started = time.monotonic()
        token_ids, reason = await self._tokens(prepared)
        return ProbeTranscript(
            request=request,
            prepared=prepared,
            prompt=raw_text(adapter, prepared.token_ids),
            output=raw_text(
                adapter, [token_id for token_id in token_ids if token_id not in prepared.stop_token_ids]
            ),
            token_ids=tuple(token_ids),
            result=read(adapter, request, prepared, token_ids, reason),
            duration_seconds=time.monotonic() - started,
        )

    async def _tokens(self, prepared: PreparedInput) -> tuple[list[int], FinishReason]:
        stream = self._client.submit(
            model=self.model,
            prompt_token_ids=prepared.token_ids,
            sampling=prepared.sampling,
            stop_token_ids=prepared.stop_token_ids,
            max_tokens=prepared.max_tokens,
            guidance=prepared.guidance,
            images=prepared.images,
        )
        token_ids: list[int] = []
        try:
            while updates := await stream.next():
                for update in updates:
                    token_ids += update.token_ids
                    self._watcher.heard(len(update.token_ids))
                    if update.finish_reason is not None:
                        return token_ids, update.finish_reason
        finally:
            stream.cancel()
        raise EngineDied("the engine ended in mid-answer")


def read(
    adapter: ModelAdapter,
    request: GenerationRequest,
    prepared: PreparedInput,
    token_ids: Sequence[int],
    reason: FinishReason = "stop",
) -> TextResult:
    """Read generated ids as inference does."""
    processor = adapter.create_stream_processor(request, prepared)
    collector = Collector()
    for event in [*processor.feed(token_ids), *processor.finish("length" if reason == "length" else "stop")]:
        collector.add(event)
    return collector.result()


def raw_text(adapter: ModelAdapter, token_ids: Sequence[int]) -> str:
    """Give every token as text, the special ones too."""
    detokenizer = adapter.vocabulary.detokenizer(is_continuation=True)
    return "".join(map(detokenizer.feed, token_ids)) + detokenizer.finish()
