"""POST /v1/audio/transcriptions and /v1/audio/translations: speech to text."""

import asyncio
import io
from collections.abc import AsyncGenerator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from threading import Event

import falcon
from falcon.asgi import Request, Response
from falcon.media import MultipartFormHandler
from falcon.media.multipart import MultipartParseOptions

from mlxctl.formats.adapters.media.audio_files import AudioFile
from mlxctl.inference import InferenceService
from mlxctl.inference.call_context import CallContext
from mlxctl.inference.preparation import PreparationPool
from mlxctl.ir import KnownSpeaker, SpeechSegment, SpeechTask, TranscriptionRequest, TranscriptionResult
from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols.openai.transcriptions import (
    ParsedTranscription,
    TranscriptionEncoder,
    fields_of_json,
    parse_transcription,
)
from mlxctl.server.http.body import read_body
from mlxctl.server.http.disconnect import call_at_end
from mlxctl.server.http.open_requests import OpenHttpRequests
from mlxctl.server.http.rate_limits import admit
from mlxctl.server.http.stream import encode_stream_error
from mlxctl.server.policy.caller import call_of
from mlxctl.state.settings import ServerSettings

_MAX_FIELDS = 64
# OpenAI's own bounds for the sample of a voice.
_REFERENCE_SECONDS = (2, 10)
# Small files may hold hours of audio, which take many seconds to decode. In asyncio's own threads, eight of
# them delayed stored responses by 23 seconds.
_DECODERS = ThreadPoolExecutor(2, thread_name_prefix="audio")


async def read_form(
    request: Request, preparation: PreparationPool, task: SpeechTask, *, limit_bytes: int
) -> dict[str, list[bytes]]:
    """Return all values of every field of a form.

    The body is `multipart/form-data`, or JSON with `input_audio`.
    Raises InvalidRequest, BodyTooLarge, QueueFull.
    """
    content_type = request.content_type or ""
    kind = content_type.lower()
    is_json = kind.startswith("application/json") and task == "transcribe"
    if not is_json and not kind.startswith("multipart/form-data"):
        raise InvalidRequest("the request body must be a form with a file; send it as multipart/form-data")
    body = await read_body(request, limit_bytes=limit_bytes)
    parse = fields_of_json if is_json else partial(_parse, content_type=content_type)
    fields: dict[str, list[bytes]] = await preparation.parse(body, parse)
    return fields


def _parse(body: bytes, content_type: str) -> dict[str, list[bytes]]:
    options = MultipartParseOptions()
    options.max_body_part_buffer_size = max(1, len(body))
    options.max_body_part_count = _MAX_FIELDS
    fields: dict[str, list[bytes]] = {}
    try:
        for part in MultipartFormHandler(options).deserialize(io.BytesIO(body), content_type, len(body)):
            fields.setdefault(part.name or "", []).append(part.get_data())
    except falcon.HTTPError as error:
        raise InvalidRequest(
            f"the request body is not a valid form: {error.description or error.title}"
        ) from error
    except UnicodeDecodeError as error:
        raise InvalidRequest("the request body is not a valid form: field names are not UTF-8") from error
    return fields


async def open_audio(data: bytes, *, is_cancelled: Event) -> AudioFile:
    """Return an audio file, decoded in a thread. Raises InvalidRequest."""
    open_file = partial(AudioFile, data, is_cancelled=is_cancelled)
    return await asyncio.get_running_loop().run_in_executor(_DECODERS, open_file)


async def _known_speakers(parsed: ParsedTranscription, is_cancelled: Event) -> tuple[KnownSpeaker, ...]:
    """Return the known speakers with their samples. Raises InvalidRequest."""
    speakers: list[KnownSpeaker] = []
    shortest, longest = _REFERENCE_SECONDS
    for number, (name, data) in enumerate(parsed.known_speakers):
        param = f"known_speaker_references[{number}]"
        try:
            audio = await open_audio(data, is_cancelled=is_cancelled)
        except InvalidRequest as error:
            raise InvalidRequest(f"{param}: {error}", param=param) from error
        if not shortest <= audio.seconds <= longest:
            what = f"holds {audio.seconds:.1f} seconds of audio; send {shortest} to {longest} seconds"
            raise InvalidRequest(f"{param} {what}", param=param)
        samples = await asyncio.to_thread(audio.read_window, 0, audio.num_samples)
        speakers.append(KnownSpeaker(name=name, samples=samples))
    return tuple(speakers)


class TranscriptionsResource:
    """Parses a form, transcribes its file and answers."""

    def __init__(
        self,
        inference: InferenceService,
        open_requests: OpenHttpRequests,
        settings: ServerSettings,
        *,
        task: SpeechTask,
    ) -> None:
        self._inference = inference
        self._open_requests = open_requests
        self._settings = settings
        self._task: SpeechTask = task

    async def on_post(self, request: Request, response: Response) -> None:
        """Transcribe the file; a disconnect cancels the work.

        A stream begins with the first window, or the first ping, so that errors before it have a status.
        """
        self._open_requests.enter(request.scope)
        call = call_of(request)
        form = await read_form(
            request, self._inference.preparation, self._task, limit_bytes=self._settings.max_body_bytes
        )
        async with call.within_deadline():
            parsed = parse_transcription(form, self._task)
            model = await self._inference.models.find(parsed.model, call, "transcription")
            admit(request, response, model.name)
            await call.check(model.name)
            has_ended = Event()
            call_at_end(request.scope, has_ended.set)
            audio = await open_audio(parsed.file, is_cancelled=has_ended)
            encoder = TranscriptionEncoder(parsed, duration=audio.seconds)
            work = _Transcription(
                self._inference,
                TranscriptionRequest(
                    model=model.name,
                    num_samples=audio.num_samples,
                    read_window=audio.read_window,
                    speech=audio.speech,
                    task=parsed.task,
                    language=parsed.language,
                    languages=parsed.languages,
                    prompt=parsed.prompt,
                    keywords=parsed.keywords,
                    temperature=parsed.temperature,
                    word_times=parsed.has_words,
                    diarized=parsed.is_diarized,
                    known_speakers=await _known_speakers(parsed, has_ended),
                ),
                call,
            )
            call_at_end(request.scope, work.cancel)
            if not parsed.stream:
                response.data = encoder.whole(await work.result())
                response.content_type = encoder.media_type
                return
            await work.wait(self._settings.ping_interval_seconds)
            if work.is_over:
                await work.result()
        response.content_type = "text/event-stream"
        response.set_headers({"cache-control": "no-cache", "x-accel-buffering": "no"})
        response.stream = self._stream(work, encoder, call)

    async def _stream(
        self, work: "_Transcription", encoder: TranscriptionEncoder, call: CallContext
    ) -> AsyncGenerator[bytes, None]:
        """Yield the text of each window, then the end or the error."""
        try:
            while not work.is_over:
                await work.wait(self._settings.ping_interval_seconds)
                call.check_deadline()
                segments = work.take()
                if chunk := encoder.delta(segments) if segments else encoder.ping():
                    yield chunk
            result = await work.result()
            yield encoder.delta(work.take()) + encoder.done(result)
        except Exception as error:
            yield encode_stream_error(error, encoder, call)


class _Transcription:
    """A transcription in its own task, with its untaken segments."""

    def __init__(
        self,
        inference: InferenceService,
        request: TranscriptionRequest,
        call: CallContext,
    ) -> None:
        self._segments: list[SpeechSegment] = []
        self._progress = asyncio.Event()
        work = inference.transcribe(request, call, on_segments=self._add)
        self._task = asyncio.create_task(work, name="transcribe")
        self._task.add_done_callback(lambda _: self._progress.set())

    @property
    def is_over(self) -> bool:
        return self._task.done()

    def cancel(self) -> None:
        self._task.cancel()

    async def result(self) -> TranscriptionResult:
        return await self._task

    def take(self) -> Sequence[SpeechSegment]:
        """Return the segments since the last call."""
        taken, self._segments = self._segments, []
        if not self.is_over:
            self._progress.clear()
        return taken

    async def wait(self, seconds: float) -> None:
        """Wait at most `seconds` for untaken segments, or the end."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._progress.wait()

    def _add(self, segments: Sequence[SpeechSegment]) -> None:
        self._segments += segments
        self._progress.set()
