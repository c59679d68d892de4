"""Benchmark of transcription: files sent to any OpenAI-compatible server."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import httpx
import msgspec

from mlxctl.bench.environment import describe_environment
from mlxctl.bench.figures import Chart, Figure, Sample
from mlxctl.bench.result import MeasuredServer, Result
from mlxctl.bench.run import cancel_on_signals
from mlxctl.bench.runner import (
    Observer,
    Rounds,
    iterations,
    keep_finished_rounds,
    measure_client_cost,
    measurements,
)
from mlxctl.formats.adapters.media.audio_files import AudioFile
from mlxctl.inference.remote.errors import error_of_response
from mlxctl.inference.remote.server_answers import decode_answer, read_answer_async
from mlxctl.ir.errors import ServerUnreachable
from mlxctl.library import this_machine
from mlxctl.state.certificates import client_context

_LABEL = "A"
# Of one file: four hours of audio on a small machine.
_MAX_SECONDS = 3600.0
_CONNECT_SECONDS = 5.0
_DELTA = b"transcript.text.delta"
_FIGURES = (
    Figure(name="request", unit="s", better="lower", meaning="all files, one after the other"),
    Figure(name="speed", unit="times", better="higher", meaning="seconds of audio in a second"),
    Figure(name="first_text", unit="s", better="lower", meaning="first text of a stream, of the first file"),
)


class _Text(msgspec.Struct):
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptionBench:
    """What is measured: files, on a model of a server.

    `url` ends in /v1.
    """

    files: Sequence[Path]
    url: str
    model: str
    api_key: str | None
    num_rounds: int
    num_warmups: int


def run_transcription_bench(bench: TranscriptionBench, observer: Observer) -> Result:
    """Transcribe the files repeatedly; Ctrl-C ends with a partial result.

    Raises MlxctlError when nothing was measured, OSError for a file that cannot be read.
    """
    return asyncio.run(_run(bench, observer))


async def _run(bench: TranscriptionBench, observer: Observer) -> Result:
    cancel_on_signals()
    started = datetime.now(UTC).isoformat(timespec="seconds")
    environment = await asyncio.to_thread(lambda: describe_environment(this_machine()))
    recordings = [await asyncio.to_thread(file.read_bytes) for file in bench.files]
    seconds = [(await asyncio.to_thread(AudioFile, data)).seconds for data in recordings]
    rounds = Rounds(samples={_LABEL: []})
    async with _Client(bench) as client:
        with keep_finished_rounds(rounds):
            for iteration in iterations(num_rounds=bench.num_rounds, num_warmups=bench.num_warmups):
                observer.begin(iteration.label, _LABEL)
                with measure_client_cost(rounds) if iteration.is_measured else nullcontext():
                    sample = await client.measure(recordings, sum(seconds))
                observer.end(iteration.label, _LABEL, is_last=True)
                if iteration.is_measured:
                    rounds.samples[_LABEL].append(sample)
    settings = {"num_warmups": bench.num_warmups, "files": len(recordings), "audio_seconds": sum(seconds)}
    server = MeasuredServer(
        label=_LABEL, name="transcription", url=bench.url, model=bench.model, context_length=None
    )
    return Result(
        scenario="transcription",
        started=started,
        is_partial=rounds.problem is not None,
        problem=rounds.problem,
        num_rounds=rounds.num_finished,
        num_rounds_wanted=bench.num_rounds,
        settings=settings,
        environment=environment,
        servers=(server,),
        measurements=measurements(_FIGURES, rounds),
        ratios=(),
        charts=(Chart(title="speed", bars=(("audio", "speed"),)),),
        client=rounds.client,
        ceiling=None,
        notes=() if client.streams else ("the server does not stream transcriptions",),
    )


class _Client:
    """A client of one server."""

    def __init__(self, bench: TranscriptionBench) -> None:
        self._url = f"{bench.url}/audio/transcriptions"
        self._model = bench.model
        self.streams = True
        self._http = httpx.AsyncClient(
            headers={"Authorization": f"Bearer {bench.api_key}"} if bench.api_key else {},
            timeout=httpx.Timeout(_MAX_SECONDS, connect=_CONNECT_SECONDS),
            trust_env=False,
            verify=client_context(bench.url),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def measure(self, recordings: Sequence[bytes], seconds: float) -> Sample:
        """Return the figures of one round. Raises MlxctlError when the server fails."""
        try:
            started = time.perf_counter()
            for data in recordings:
                await self._transcribe(data)
            elapsed = time.perf_counter() - started
            first = await self._first_text(recordings[0]) if self.streams else None
        except (httpx.HTTPError, TimeoutError) as error:
            raise ServerUnreachable(self._url, type(error).__name__) from None
        return {"request": elapsed, "speed": seconds / elapsed} | (
            {} if first is None else {"first_text": first}
        )

    async def _transcribe(self, data: bytes) -> None:
        form = self._form(data)
        async with asyncio.timeout(_MAX_SECONDS), self._http.stream("POST", self._url, **form) as answer:
            body = await read_answer_async(answer)
        if answer.status_code != 200:
            raise error_of_response(answer.status_code, body)
        decode_answer(body, _Text, url=self._url)

    async def _first_text(self, data: bytes) -> float | None:
        """Return when the first text of a stream arrives.

        None where the server does not stream, or hears nothing.
        """
        started, tail = time.perf_counter(), b""
        form = self._form(data, stream="true")
        async with asyncio.timeout(_MAX_SECONDS), self._http.stream("POST", self._url, **form) as answer:
            self.streams = "event-stream" in answer.headers.get("content-type", "")
            async for chunk in answer.aiter_bytes():
                tail = tail[-len(_DELTA) :] + chunk
                if _DELTA in tail:
                    return time.perf_counter() - started
        return None

    def _form(self, data: bytes, **fields: str) -> dict[str, Any]:
        form = {"model": self._model, "response_format": "json", **fields}
        return {"data": form, "files": {"file": ("audio", data)}}
