"""Inference by another server over HTTP. Event-loop thread only."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Annotated, Any, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from mlxctl.inference.interface import CacheEntry, InferenceStats
from mlxctl.inference.remote.address import ServerAddress, too_slow, unreachable
from mlxctl.inference.remote.chat_protocol import OPENAI, ChatProtocol
from mlxctl.inference.remote.errors import error_of_response
from mlxctl.inference.remote.generation import RemoteGeneration
from mlxctl.inference.remote.model_list import RemoteModel, read_models
from mlxctl.inference.remote.request_body import chat_body
from mlxctl.inference.remote.results import EmbeddingsBody, TranscriptionBody, audio_suffix, wav_file
from mlxctl.inference.remote.server_answers import convert_answer, decode_answer, read_answer_async
from mlxctl.inference.remote.speech import WavReader, speech_body
from mlxctl.inference.remote.transcription_events import TranscriptionEvents
from mlxctl.inference.request_entry import RequestView
from mlxctl.ir import (
    EmbeddingRequest,
    EmbeddingResult,
    GenerationRequest,
    SegmentObserver,
    SpeechChunk,
    SpeechRequest,
    TranscriptionRequest,
    TranscriptionResult,
)
from mlxctl.ir.errors import (
    CapacityError,
    ConnectionLost,
    MlxctlError,
    NoModelList,
    ServerUnreachable,
    UnknownModel,
    UnknownResource,
)
from mlxctl.library import DEMO_MODEL, DEMO_SHORT_NAME
from mlxctl.terminal_text import escape_line

_Result = TypeVar("_Result")

_LIST_SECONDS = 10.0
# Servers that send no keep-alive are silent for minutes while a small machine prefills a long prompt.
_SILENCE_SECONDS = 1800.0
_NO_HEADERS: Mapping[str, str] = {}
# A page for people, or an answer that is not streamed.
_NO_STREAMS = ("text/html", "application/json")


class _Explanation(msgspec.Struct, frozen=True):
    num_prompt_tokens: int


class _Explanations(msgspec.Struct, frozen=True):
    explanations: Annotated[list[_Explanation], msgspec.Meta(min_length=1)]


class _CachePage(msgspec.Struct, frozen=True):
    chunks: list[CacheEntry]
    num_chunks: int


class _Cancelled(msgspec.Struct, frozen=True):
    cancelled: list[int]


class _LoadedModel(msgspec.Struct, frozen=True):
    name: str
    weights_bytes: int
    is_pinned: bool


class _Pool(msgspec.Struct, frozen=True):
    models: list[_LoadedModel] = []


class _Admission(msgspec.Struct, frozen=True):
    usable_bytes: int | None = None
    machine_memory_bytes: int | None = None


class _KVQuant(msgspec.Struct, frozen=True):
    mode: str
    layers: dict[str, int]


class _Counters(msgspec.Struct, frozen=True):
    """The counters of `GET /stats` that are no plain numbers."""

    cache_hits: dict[str, int] | None = None
    pool: _Pool | None = None
    admission: _Admission | None = None
    kv_quant: dict[str, _KVQuant] | None = None
    draft_tokens: dict[str, tuple[int, int]] | None = None
    prefix_cache_bits: int | None = None


class RemoteInference:
    """Models behind one base URL (`http://host:port`, with or without `/v1`); implements `Inference`.

    `generate` speaks the `protocol`; `embed` and `transcribe` need an OpenAI-compatible server; `stats` and
    `count_tokens` use routes of `mlxctl serve` and raise UnknownResource elsewhere. Every request has the
    `headers`. A server may be silent for `silence_seconds`.
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        protocol: ChatProtocol = OPENAI,
        headers: Mapping[str, str] = _NO_HEADERS,
        silence_seconds: float = _SILENCE_SECONDS,
    ) -> None:
        address = ServerAddress.of(url, api_key)
        self.root, self.url = address.root, f"{address.root}/v1"
        self._models: tuple[RemoteModel, ...] = ()
        self._protocol = protocol
        key = protocol.key_headers(api_key) if api_key else {}
        self._client = address.async_client(
            seconds=silence_seconds, headers={**key, **dict(protocol.headers), **headers}
        )

    async def wait_ready(self) -> None:
        """Read the list of models once.

        Raises ServerUnreachable, CapacityError while models are loaded, AuthenticationFailed.
        """
        try:
            await self.list_models()
        except UnknownResource:
            raise NoModelList(self.url) from None
        if not self._models:
            raise CapacityError(f"the server at {self.url} serves no model yet")

    async def list_models(self) -> tuple[RemoteModel, ...]:
        """Read the list of models, which may be empty.

        Raises as `wait_ready`, and UnknownResource for a server without a list.
        """
        content = await self._request("GET", f"{self.url}/models", seconds=_LIST_SECONDS)
        self._models = read_models(content, url=self.url)
        return self._models

    async def close(self) -> None:
        """Close all connections, with the answers on them."""
        await self._client.aclose()

    def models(self) -> tuple[RemoteModel, ...]:
        """Return the models that requests can name, as of the last `wait_ready`."""
        return self._models

    def find_model(self, name: str | None) -> RemoteModel:
        """Return the model called `name`, or the first for chat.

        Raises UnknownModel.
        """
        if name is None:
            return next((model for model in self._models if model.can_chat), self._models[0])
        by_name = {model.name: model for model in self._models}
        if name == DEMO_SHORT_NAME and name not in by_name:
            name = DEMO_MODEL.name
        if name in by_name:
            return by_name[name]
        raise UnknownModel(name, tuple(escape_line(model.name) for model in self._models))

    async def generate(self, request: GenerationRequest) -> RemoteGeneration:
        """Send the request; returns when the server has accepted it.

        Raises the error of its response, and ServerUnreachable.
        """
        return await self.send(self.body(request))

    def body(self, request: GenerationRequest) -> bytes:
        """Return the body of a request, for `send`. Any thread. Raises InvalidRequest."""
        return msgspec.json.encode(self._protocol.body(request))

    async def send(self, body: bytes, *, headers: Mapping[str, str] = _NO_HEADERS) -> RemoteGeneration:
        """Send the body of a request. Raises as `generate`."""
        message = self._client.build_request(
            "POST",
            f"{self.url}/{self._protocol.path}",
            content=body,
            headers={"Content-Type": "application/json", "Accept": "text/event-stream", **headers},
        )
        response = await self._open(message)
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind in _NO_STREAMS:
            await response.aclose()
            reason = f"it answers with {kind} in place of an event stream; check the URL and the protocol"
            raise ServerUnreachable(self.url, reason, is_other=True)
        return RemoteGeneration(response, self._protocol.create_reader())

    async def embed(self, request: EmbeddingRequest) -> EmbeddingResult:
        """Return a vector for each text. Raises as `generate` does."""
        body = {"model": request.model, "input": list(request.inputs), "dimensions": request.dimensions}
        path = f"{self.url}/embeddings"
        answer = await self._post(
            path, {name: value for name, value in body.items() if value is not None}, EmbeddingsBody
        )
        return answer.result()

    async def transcribe(
        self, request: TranscriptionRequest, *, on_segments: SegmentObserver | None = None
    ) -> TranscriptionResult:
        """Transcribe an audio file, sent as it is, or as WAV.

        Raises as `generate` does.
        With `on_segments` the text is streamed; the result has no language then.
        """
        route = "transcriptions" if request.task == "transcribe" else "translations"
        path = f"{self.url}/audio/{route}"
        temperature = str(request.temperature) if request.temperature else ""
        fields = {"language": request.language, "prompt": request.prompt, "temperature": temperature}
        form: dict[str, Any] = {"model": request.model} | {
            name: value for name, value in fields.items() if value
        }
        form |= {"keywords[]": list(request.keywords), "languages[]": list(request.languages)}
        audio = request.encoded
        if audio is None:
            audio = await asyncio.to_thread(wav_file, request)
        # Other servers decide by the suffix.
        files = {"file": (f"audio{audio_suffix(audio)}", audio)}
        if on_segments is not None:
            return await self._stream_transcription(path, form | {"stream": "true"}, files, on_segments)
        form |= {"response_format": "verbose_json"}
        if request.word_times:
            form["timestamp_granularities[]"] = ["segment", "word"]
        content = await self._request("POST", path, data=form, files=files)
        return decode_answer(content, TranscriptionBody, url=path).result()

    async def _stream_transcription(
        self, url: str, form: Mapping[str, Any], files: Mapping[str, Any], on_segments: SegmentObserver
    ) -> TranscriptionResult:
        events = TranscriptionEvents(url)
        try:
            async with self._client.stream("POST", url, data=form, files=files) as response:
                if response.status_code != 200:
                    async with asyncio.timeout(_LIST_SECONDS):
                        raise _error(response, await read_answer_async(response))
                async for data in response.aiter_bytes():
                    if segments := events.feed(data):
                        on_segments(segments, events.duration)
        except (httpx.HTTPError, TimeoutError) as error:
            raise unreachable(self.url, error) from None
        return events.result()

    async def speak(self, request: SpeechRequest) -> AsyncGenerator[SpeechChunk, None]:
        """Speak a text. Raises as `generate` does, and ConnectionLost."""
        message = self._client.build_request("POST", f"{self.url}/audio/speech", json=speech_body(request))
        response = await self._open(message)
        reader = WavReader()
        try:
            async with aclosing(response):
                async for data in response.aiter_bytes():
                    if (chunk := reader.feed(data)) is not None:
                        yield chunk
        except httpx.HTTPError as error:
            raise ConnectionLost(
                f"the server closed the connection during the audio ({type(error).__name__})"
            ) from None
        yield reader.finish()

    async def count_tokens(self, request: GenerationRequest) -> int:
        """Count the tokens of a conversation's prompt on the server.

        Raises as `generate` does, and UnknownResource for a server other than mlxctl's.
        """
        path = f"{self.root}/cache/explain"
        body = {"protocol": "chat", "body": chat_body(request)}
        answer = await self._post(path, body, _Explanations)
        return answer.explanations[0].num_prompt_tokens

    async def stats(self) -> InferenceStats:
        """Return the counters and requests of an mlxctl server.

        Raises the error of its response, ServerUnreachable, and UnknownResource for another server.
        """
        counters = await self.get("/stats", dict[str, Any])
        convert_answer(counters, _Counters, url=f"{self.root}/stats")
        found = await self.get("/requests", dict[str, list[RequestView]])
        return InferenceStats(counters=counters, requests=tuple(found.get("requests", [])))

    async def cached_entries(self, limit: int) -> list[CacheEntry]:
        """Return the server's cached chunks, the most recently used first.

        Raises what `stats` raises.
        """
        num_chunks = (await self.get("/cache?limit=1", _CachePage)).num_chunks
        page = await self.get(f"/cache?offset={max(0, num_chunks - limit)}&limit={limit}", _CachePage)
        return page.chunks[::-1]

    async def cancel(self, request_id: str) -> list[int]:
        """Cancel an open request; return the numbers of its answers.

        `request_id` is its number or HTTP request id. Needs an mlxctl server. Raises the error of the
        response, ServerUnreachable.
        """
        url = f"{self.root}/requests/{quote(request_id, safe='')}"
        content = await self._request("DELETE", url, seconds=_LIST_SECONDS)
        return decode_answer(content, _Cancelled, url=url).cancelled

    async def get(self, path: str, kind: type[_Result]) -> _Result:
        """Return what an mlxctl server answers. Raises as `stats` does."""
        url = f"{self.root}{path}"
        try:
            content = await self._request("GET", url, seconds=_LIST_SECONDS)
        except UnknownResource:
            raise UnknownResource(
                f"the server at {self.root} has no {path}; only `mlxctl serve` has it"
            ) from None
        return decode_answer(content, kind, url=url)

    async def _post(self, url: str, body: Mapping[str, Any], kind: type[_Result]) -> _Result:
        headers = {"Content-Type": "application/json"}
        content = await self._request("POST", url, content=msgspec.json.encode(body), headers=headers)
        return decode_answer(content, kind, url=url)

    async def _open(self, message: httpx.Request) -> httpx.Response:
        """Return the response to read as it comes.

        Raises the error of its status, and ServerUnreachable.
        """
        try:
            response = await self._client.send(message, stream=True)
            if response.status_code == 200:
                return response
            async with aclosing(response), asyncio.timeout(_LIST_SECONDS):
                content = await read_answer_async(response)
        except (httpx.HTTPError, TimeoutError) as error:
            raise unreachable(self.url, error) from None
        raise _error(response, content)

    async def _request(
        self, method: str, url: str, *, seconds: float = _SILENCE_SECONDS, **options: Any
    ) -> bytes:
        """Return the body.

        Raises the error of its status, ServerUnreachable, and CapacityError where no answer comes in time.
        """
        base = self.url if url.startswith(self.url) else self.root
        try:
            async with asyncio.timeout(seconds), self._client.stream(method, url, **options) as response:
                content = await read_answer_async(response)
        except (TimeoutError, httpx.ReadTimeout):
            raise too_slow(base, seconds) from None
        except httpx.HTTPError as error:
            raise unreachable(base, error) from None
        if response.status_code != 200:
            raise _error(response, content)
        return content


def _error(response: httpx.Response, content: bytes) -> MlxctlError:
    retry_after = response.headers.get("retry-after")
    return error_of_response(response.status_code, content, retry_after=retry_after)
