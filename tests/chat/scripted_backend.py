"""A backend that replays scripted events with given pauses."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from mlxctl.chat.chat_backend import BackendModel, SelectableModel
from mlxctl.chat.observation import Observation
from mlxctl.inference.interface import CacheEntry
from mlxctl.ir import (
    Finished,
    GenerationRequest,
    SpeechChunk,
    SpeechRequest,
    StreamEvent,
    TextDelta,
    ToolArgumentsDelta,
    ToolCallEnded,
    ToolCallStarted,
    Usage,
)
from mlxctl.ir.errors import MlxctlError

Line = StreamEvent | MlxctlError | asyncio.Event | float


class ScriptedAnswer:
    """Replays one script: events, pauses, or a final error."""

    def __init__(self, script: Sequence[Line]) -> None:
        self.is_cancelled = False
        self._script = script

    async def __aiter__(self) -> AsyncIterator[list[StreamEvent]]:
        for line in self._script:
            if isinstance(line, float):
                await asyncio.sleep(line)
            elif isinstance(line, asyncio.Event):
                await line.wait()
            elif isinstance(line, MlxctlError):
                raise line
            else:
                yield [line]

    def cancel(self) -> None:
        self.is_cancelled = True


class ScriptedBackend:
    """Replays its scripts in order and records the requests."""

    address = "a script"

    def __init__(self, *scripts: Sequence[Line], model: BackendModel | None = None) -> None:
        self.requests: list[GenerationRequest] = []
        self.answers: list[ScriptedAnswer] = []
        self.spoken: list[SpeechRequest] = []
        self.spoken_chunks: Sequence[SpeechChunk] = ()
        self._scripts = list(scripts)
        self._model = model or BackendModel(name="scripted", context_length=4096, supports_tools=True)

    async def open(self) -> BackendModel:
        return self._model

    async def list_models(self) -> list[SelectableModel]:
        broken = SelectableModel(name="broken", note="has no weights", is_usable=False)
        return [SelectableModel(name=self._model.name), SelectableModel(name="another"), broken]

    async def switch(self, name: str) -> BackendModel:
        self._model = replace(self._model, name=name)
        return self._model

    async def start(self, request: GenerationRequest) -> ScriptedAnswer:
        self.requests.append(request)
        self.answers.append(ScriptedAnswer(self._scripts.pop(0)))
        return self.answers[-1]

    def speech_model(self) -> str | None:
        return "voice" if self.spoken_chunks else None

    async def speak(self, request: SpeechRequest) -> AsyncIterator[SpeechChunk]:
        self.spoken.append(request)
        for chunk in self.spoken_chunks:
            yield chunk

    async def observe(self) -> Observation:
        return Observation(at=float(len(self.requests)), stats={"num_generated_tokens": 0})

    async def cancel(self, request_id: str) -> list[int]:
        return []

    async def cached_entries(self, limit: int) -> list[CacheEntry]:
        return []

    async def check(self) -> None:
        """Always reachable."""

    async def close(self) -> None:
        """Do nothing."""


def text(*pieces: str) -> list[StreamEvent]:
    """Return an answer of plain text."""
    return [*(TextDelta(text=piece) for piece in pieces), end(num_completion_tokens=len(pieces))]


def call(name: str, arguments: str) -> list[StreamEvent]:
    """Return an answer with one tool call."""
    started = ToolCallStarted(index=0, id="call_1", name=name)
    return [
        started,
        ToolArgumentsDelta(index=0, json=arguments),
        ToolCallEnded(index=0),
        end(reason="tool_calls"),
    ]


def end(*, num_completion_tokens: int = 5, reason: str = "stop") -> Finished:
    """Return the end of an answer.

    80 of 100 prompt tokens are cached.
    """
    usage = Usage(num_prompt_tokens=100, num_cached_tokens=80, num_completion_tokens=num_completion_tokens)
    return Finished(reason=reason, usage=usage)  # type: ignore[arg-type]
