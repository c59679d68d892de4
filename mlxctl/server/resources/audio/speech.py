"""POST /v1/audio/speech and GET /v1/audio/voices: text to speech."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event

from falcon.asgi import Request, Response

from mlxctl.formats.adapters.media.resampling import Resampler
from mlxctl.formats.adapters.media.speech_files import SpeechFile
from mlxctl.inference import InferenceService
from mlxctl.inference.call_context import CallContext
from mlxctl.ir import ReferenceAudio, SpeechRecipe, SpeechRequest
from mlxctl.ir.audio_format import MEDIA_TYPES
from mlxctl.ir.errors import InvalidRequest
from mlxctl.ir.transcription import SAMPLE_RATE
from mlxctl.protocols.openai.speech import (
    ParsedSpeech,
    SpeechEvents,
    encode_voices,
    find_voice,
    parse_speech,
)
from mlxctl.server.http.answer import answer
from mlxctl.server.http.body import read_body
from mlxctl.server.http.disconnect import BrokenStream, call_at_end
from mlxctl.server.http.open_requests import OpenHttpRequests
from mlxctl.server.http.rate_limits import admit
from mlxctl.server.http.stream import encode_stream_error
from mlxctl.server.observe.http_record import HttpRecord, SpeechFigures
from mlxctl.server.policy.caller import allowed_models, call_of
from mlxctl.server.resources.audio.spoken_answer import SpokenAnswer
from mlxctl.server.resources.audio.transcriptions import open_audio
from mlxctl.state.settings import ServerSettings

MAX_REFERENCE_SECONDS = 60
"""The longest recording of a voice. A policy: some seconds suffice, and the encoder takes them at once."""

# A second of audio takes 5 ms as MP3 and 15 to 30 as Opus, measured on a core of a shared virtual machine.
_ENCODERS = ThreadPoolExecutor(2, thread_name_prefix="speech")


class SpeechResource:
    """Parses the request, and sends the audio as it is computed."""

    def __init__(
        self, inference: InferenceService, open_requests: OpenHttpRequests, settings: ServerSettings
    ) -> None:
        self._inference = inference
        self._open_requests = open_requests
        self._settings = settings

    async def on_post(self, request: Request, response: Response) -> None:
        """Speak the text; a disconnect cancels the work.

        The answer begins with the first chunk, so that errors before it have a status; a stream of events may
        begin with a ping.
        """
        self._open_requests.enter(request.scope)
        call = call_of(request)
        body = await read_body(request, limit_bytes=self._settings.max_body_bytes)
        async with call.within_deadline():
            asked = await self._inference.preparation.parse(body, parse_speech)
            model = await self._inference.models.find(asked.model, call, "speech")
            admit(request, response, model.name)
            await call.check(model.name)
            recipe = model.facts.speech
            assert recipe is not None, "only speech models are found here"
            file = SpeechFile(asked.format, recipe.sample_rate)
            has_ended = Event()
            call_at_end(request.scope, has_ended.set)
            spoken = SpeechRequest(
                model=model.name,
                text=asked.text,
                voice=find_voice(asked.voice, recipe),
                instructions=asked.instructions,
                language=asked.language,
                speed=asked.speed,
                seed=asked.seed,
                reference=await _read_reference(asked, recipe, has_ended),
            )
            figures = SpeechFigures(model=model.name, num_characters=len(asked.text))
            work = SpokenAnswer(self._inference.speak(spoken, call), figures)
            call_at_end(request.scope, work.close)
            stream = _AudioStream(work, file, call, asked, self._settings.ping_interval_seconds)
            try:
                response.stream = await stream.begin()
            except InvalidRequest as error:
                raise _of_field(error) from None
            record: HttpRecord = request.context.record
            record.speech = figures
        response.content_type = "text/event-stream" if asked.sends_events else MEDIA_TYPES[asked.format]
        response.set_headers({"cache-control": "no-cache", "x-accel-buffering": "no"})


class VoicesResource:
    """GET /v1/audio/voices: the voices of the speech models."""

    def __init__(self, inference: InferenceService) -> None:
        self._inference = inference

    async def on_get(self, request: Request, response: Response) -> None:
        """List the voices of all speech models, or of `model`.

        Raises UnknownModel, InvalidRequest.
        """
        name = request.get_param("model")
        models = (
            self._inference.models.served(allowed_models(request))
            if not name
            else (await self._inference.models.find(name, call_of(request), "speech"),)
        )
        recipes = [(model.name, model.facts.speech) for model in models]
        answer(response, encode_voices([(name, recipe) for name, recipe in recipes if recipe is not None]))


class _AudioStream:
    """The chunks of `response.stream`: parts of the file, or events with them."""

    def __init__(
        self,
        work: SpokenAnswer,
        file: SpeechFile,
        call: CallContext,
        asked: ParsedSpeech,
        ping_seconds: float,
    ) -> None:
        self._work, self._file, self._call = work, file, call
        self._events = SpeechEvents() if asked.sends_events else None
        self._ping_seconds = ping_seconds
        self._is_over = False

    async def begin(self) -> AsyncGenerator[bytes, None]:
        """Wait for the first bytes, and return the stream of all."""
        first = await self._next()
        return self._all(first)

    async def _all(self, first: bytes) -> AsyncGenerator[bytes, None]:
        try:
            yield first
            while not self._is_over:
                async with self._call.within_deadline():
                    chunk = await self._next()
                yield chunk
        except Exception as error:
            end = encode_stream_error(error, self._events or SpeechEvents(), self._call)
            if self._events is None:
                raise BrokenStream from error
            yield end

    async def _next(self) -> bytes:
        """Return the next bytes to send, never b"" but at the end."""
        while True:
            try:
                chunk = await self._work.next(None if self._events is None else self._ping_seconds)
            except TimeoutError:
                assert self._events is not None, "only events have pings between them"
                return self._events.ping()
            if chunk is None:
                self._is_over = True
                return self._end(await self._run(self._file.close))
            if data := await self._run(self._file.write, chunk.samples):
                return data if self._events is None else self._events.delta(data)

    def _end(self, data: bytes) -> bytes:
        if self._events is None:
            return data
        done = self._events.done(
            num_text_tokens=self._work.num_text_tokens, num_audio_tokens=self._work.num_audio_tokens
        )
        return (self._events.delta(data) if data else b"") + done

    @staticmethod
    async def _run(step: Callable[..., bytes], *values: bytes) -> bytes:
        return await asyncio.get_running_loop().run_in_executor(_ENCODERS, step, *values)


async def _read_reference(
    asked: ParsedSpeech, recipe: SpeechRecipe, is_cancelled: Event
) -> ReferenceAudio | None:
    """Return the recording of the voice in the model's rate. Raises InvalidRequest."""
    if asked.recording is None:
        return None
    try:
        audio = await open_audio(asked.recording, is_cancelled=is_cancelled)
    except InvalidRequest as error:
        raise _of_field(error) from None
    if audio.seconds > MAX_REFERENCE_SECONDS:
        message = f"ref_audio has {audio.seconds:.0f} seconds; send at most {MAX_REFERENCE_SECONDS}"
        raise InvalidRequest(message, param="ref_audio")
    samples = await asyncio.to_thread(audio.read_window, 0, audio.num_samples)
    return ReferenceAudio(
        samples=await asyncio.to_thread(_as_floats, samples, recipe.sample_rate),
        sample_rate=recipe.sample_rate,
        text=asked.recorded_text,
    )


def _of_field(error: InvalidRequest) -> InvalidRequest:
    """Return an error about the recording as one about `ref_audio`."""
    if error.param not in ("file", "reference"):
        return error
    return InvalidRequest(str(error).replace("file ", "ref_audio ", 1), param="ref_audio", code=error.code)


def _as_floats(samples: bytes, sample_rate: int) -> bytes:
    """Return 16-bit samples of a decoded file as float32 in another rate."""
    import numpy as np

    values = np.frombuffer(samples, dtype=np.int16).astype(np.float32) / 32768
    if sample_rate != SAMPLE_RATE:
        resampler = Resampler(SAMPLE_RATE, sample_rate)
        values = np.concatenate((resampler.feed(values), resampler.finish()))
    converted: bytes = values.astype("<f4").tobytes()
    return converted
