"""Speech: first audio and real-time factor, alone, together, beside a stream."""

import asyncio
import statistics
import time
from contextlib import aclosing
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

from mlxctl.bench.figures import Chart, Figure, Sample, percentile
from mlxctl.bench.prompts import Prompts
from mlxctl.bench.scenarios.background import DecodingStream
from mlxctl.bench.target import BenchTarget
from mlxctl.inference.remote import RemoteInference
from mlxctl.ir import SpeechRequest
from mlxctl.ir.errors import SequenceFailed
from mlxctl.ir.speech import FLOAT_BYTES

_SENTENCE_WORDS = 12
_STREAM_TOKENS = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Speech:
    """Texts of `words` words: `num_requests` one after the other, then `num_at_once`.

    The real-time factor is the time of computing for each second of audio: below 1 it plays without a pause.
    The stream of `chat_model` is observed for `watch_seconds` alone.
    """

    num_requests: int = 3
    num_at_once: int = 4
    words: int = 36
    voice: str | None = None
    chat_model: str | None = None
    watch_seconds: float = 1.0

    name: ClassVar[str] = "speech"
    figures: ClassVar[tuple[Figure, ...]] = (
        Figure(name="first_audio", unit="s", better="lower", meaning="first audio of a text alone"),
        Figure(
            name="real_time_factor", unit="times", better="lower", meaning="computing per second of audio"
        ),
        Figure(name="first_audio_at_once", unit="s", better="lower", meaning="texts at once, the slowest"),
        Figure(name="real_time_factor_at_once", unit="times", better="lower", meaning="all of them together"),
        Figure(name="speedup_at_once", unit="times", better="higher", meaning="against one after the other"),
        Figure(name="first_audio_beside_stream", unit="s", better="lower", meaning="beside a token stream"),
        Figure(
            name="real_time_factor_beside_stream", unit="times", better="lower", meaning="of those requests"
        ),
        Figure(name="gap_idle", unit="s", better="lower", meaning="between tokens of the stream alone, p50"),
        Figure(name="gap_beside_speech_p99", unit="s", better="lower", meaning="during speech, p99"),
        Figure(name="gap_growth", unit="times", better="lower", meaning="of this p99 against that p50"),
    )
    charts: ClassVar[tuple[Chart, ...]] = (
        Chart(
            title="time to first audio",
            bars=(
                ("alone", "first_audio"),
                ("at once", "first_audio_at_once"),
                ("beside a stream", "first_audio_beside_stream"),
            ),
        ),
        Chart(
            title="real-time factor",
            bars=(
                ("alone", "real_time_factor"),
                ("at once", "real_time_factor_at_once"),
                ("beside a stream", "real_time_factor_beside_stream"),
            ),
        ),
    )

    @property
    def settings(self) -> dict[str, Any]:
        return asdict(self)

    async def measure(self, target: BenchTarget, prompts: Prompts, key: str) -> Sample:
        """Measure alone, at once, and, with a chat model, beside a stream."""
        endpoint = target.endpoint
        server = RemoteInference(endpoint.base_url, api_key=endpoint.api_key)
        try:
            alone = [
                await self._speak(server, target, prompts, f"{key} {number}")
                for number in range(self.num_requests)
            ]
            started = time.perf_counter()
            together = await asyncio.gather(
                *(
                    self._speak(server, target, prompts, f"{key} at once {number}")
                    for number in range(self.num_at_once)
                )
            )
            seconds = time.perf_counter() - started
            factor = statistics.median(spoken.factor for spoken in alone)
            factor_at_once = seconds / sum(spoken.audio_seconds for spoken in together)
            sample = {
                "first_audio": statistics.median(spoken.first_seconds for spoken in alone),
                "real_time_factor": factor,
                "first_audio_at_once": max(spoken.first_seconds for spoken in together),
                "real_time_factor_at_once": factor_at_once,
                "speedup_at_once": factor / factor_at_once,
            }
            return sample | await self._beside_stream(server, target, prompts, key)
        finally:
            await server.close()

    async def _beside_stream(
        self, server: RemoteInference, target: BenchTarget, prompts: Prompts, key: str
    ) -> Sample:
        chat_model = self.chat_model or target.chat_model
        if chat_model is None:
            target.note("the server lists no chat model, so nothing was measured beside a stream")
            return {}
        chat = replace(target, model=chat_model, listed=None)
        stream = DecodingStream(chat, prompts, f"{key} stream", answer_tokens=_STREAM_TOKENS)
        try:
            await stream.wait_started()
            watched = time.perf_counter()
            await asyncio.sleep(self.watch_seconds)
            idle, speaking = stream.gaps_since(watched), time.perf_counter()
            beside = [
                await self._speak(server, target, prompts, f"{key} beside {number}")
                for number in range(self.num_requests)
            ]
            gaps = stream.gaps_since(speaking)
        finally:
            await stream.stop()
            target.num_tokens = chat.num_tokens
        sample = {
            "first_audio_beside_stream": statistics.median(spoken.first_seconds for spoken in beside),
            "real_time_factor_beside_stream": statistics.median(spoken.factor for spoken in beside),
        }
        if idle:
            sample["gap_idle"] = statistics.median(idle)
        if gaps:
            sample["gap_beside_speech_p99"] = percentile(gaps, 0.99)
        if idle and gaps:
            sample["gap_growth"] = sample["gap_beside_speech_p99"] / sample["gap_idle"]
        return sample

    async def _speak(
        self, server: RemoteInference, target: BenchTarget, prompts: Prompts, key: str
    ) -> "_Spoken":
        """Speak one text. Raises MlxctlError."""
        words = prompts.prose(key, self.words * 2).split()[: self.words]
        sentences = [
            " ".join(words[start : start + _SENTENCE_WORDS]).capitalize() + "."
            for start in range(0, len(words), _SENTENCE_WORDS)
        ]
        request = SpeechRequest(model=target.model, text=" ".join(sentences), voice=self.voice)
        started, first, audio_seconds = time.perf_counter(), None, 0.0
        async with aclosing(server.speak(request)) as chunks:
            async for chunk in chunks:
                if first is None and chunk.samples:
                    first = time.perf_counter() - started
                audio_seconds += len(chunk.samples) / FLOAT_BYTES / chunk.sample_rate
        if first is None:
            raise SequenceFailed("the server sent no audio")
        return _Spoken(
            first_seconds=first, seconds=time.perf_counter() - started, audio_seconds=audio_seconds
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spoken:
    """Times of one request, and the length of its audio, in seconds."""

    first_seconds: float
    seconds: float
    audio_seconds: float

    @property
    def factor(self) -> float:
        """The real-time factor."""
        return self.seconds / self.audio_seconds
