"""Transcription of audio files, and the first text of a stream."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import httpx
import msgspec

from mlxctl.bench.figures import Chart, Figure, Sample
from mlxctl.bench.prompts import Prompts
from mlxctl.bench.target import BenchTarget
from mlxctl.formats.adapters.media.audio_files import AudioFile
from mlxctl.inference.remote.errors import error_of_response
from mlxctl.inference.remote.server_answers import decode_answer, read_answer_async
from mlxctl.ir.errors import ServerUnreachable
from mlxctl.state.certificates import client_context

# Of one file: four hours of audio on a small machine.
_MAX_SECONDS = 3600.0
_CONNECT_SECONDS = 5.0
_DELTA = b"transcript.text.delta"


class _Text(msgspec.Struct):
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """An audio file, and the length of its audio."""

    data: bytes
    seconds: float

    @classmethod
    def read(cls, file: Path) -> Self:
        """Read a file. Raises OSError, InvalidRequest."""
        data = file.read_bytes()
        return cls(data=data, seconds=AudioFile(data).seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcription:
    """Recordings one after the other, then the first as a stream."""

    recordings: Sequence[Recording]

    name: ClassVar[str] = "transcription"
    figures: ClassVar[tuple[Figure, ...]] = (
        Figure(name="request", unit="s", better="lower", meaning="all files, one after the other"),
        Figure(name="speed", unit="times", better="higher", meaning="seconds of audio in a second"),
        Figure(
            name="first_text", unit="s", better="lower", meaning="first text of a stream, of the first file"
        ),
    )
    charts: ClassVar[tuple[Chart, ...]] = (Chart(title="speed", bars=(("audio", "speed"),)),)

    @property
    def settings(self) -> dict[str, Any]:
        return {"files": len(self.recordings), "audio_seconds": self._seconds}

    async def measure(self, target: BenchTarget, prompts: Prompts, key: str) -> Sample:  # noqa: ARG002
        """Send all recordings. Raises MlxctlError when the server fails."""
        url = f"{target.endpoint.base_url}/audio/transcriptions"
        try:
            async with _client(target) as http:
                started = time.perf_counter()
                for recording in self.recordings:
                    async with http.stream("POST", url, **_form(target, recording)) as answer:
                        body = await read_answer_async(answer)
                    if answer.status_code != 200:
                        raise error_of_response(answer.status_code, body)
                    decode_answer(body, _Text, url=url)
                elapsed = time.perf_counter() - started
                first = await self._first_text(target, http, url)
        except (httpx.HTTPError, TimeoutError) as error:
            raise ServerUnreachable(url, type(error).__name__) from None
        figures = {"request": elapsed, "speed": self._seconds / elapsed}
        return figures if first is None else figures | {"first_text": first}

    @property
    def _seconds(self) -> float:
        return sum(recording.seconds for recording in self.recordings)

    async def _first_text(self, target: BenchTarget, http: httpx.AsyncClient, url: str) -> float | None:
        """Return when the first text of a stream arrives.

        None where the server does not stream, or hears nothing.
        """
        started, tail = time.perf_counter(), b""
        form = _form(target, self.recordings[0], stream="true")
        async with http.stream("POST", url, **form) as answer:
            if "event-stream" not in answer.headers.get("content-type", ""):
                target.note("the server does not stream transcriptions")
                return None
            async for chunk in answer.aiter_bytes():
                tail = tail[-len(_DELTA) :] + chunk
                if _DELTA in tail:
                    return time.perf_counter() - started
        return None


@asynccontextmanager
async def _client(target: BenchTarget) -> AsyncIterator[httpx.AsyncClient]:
    endpoint = target.endpoint
    async with httpx.AsyncClient(
        headers={"Authorization": f"Bearer {endpoint.api_key}"} if endpoint.api_key else {},
        timeout=httpx.Timeout(_MAX_SECONDS, connect=_CONNECT_SECONDS),
        trust_env=False,
        verify=client_context(endpoint.base_url),
    ) as http:
        yield http


def _form(target: BenchTarget, recording: Recording, **fields: str) -> dict[str, Any]:
    form = {"model": target.model, "response_format": "json", **fields}
    return {"data": form, "files": {"file": ("audio", recording.data)}}
