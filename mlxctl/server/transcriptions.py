"""POST /v1/audio/transcriptions and /v1/audio/translations: speech to text."""

import asyncio
from threading import Event

from falcon.asgi import Request, Response

from mlxctl.adapters.media.audio_files import AudioFile
from mlxctl.inference import InferenceService
from mlxctl.ir import SpeechTask, TranscriptionRequest
from mlxctl.protocols import OpenAITranscriptionFormatter
from mlxctl.server.deadline import Deadline
from mlxctl.server.disconnect import call_at_end
from mlxctl.server.multipart_form import read_form
from mlxctl.server.open_requests import OpenRequests
from mlxctl.settings import ServerSettings


class TranscriptionsResource:
    """Reads a form, has its file written down, and answers whole.

    Raises what went wrong; others render it.
    """

    def __init__(
        self,
        inference: InferenceService,
        open_requests: OpenRequests,
        settings: ServerSettings,
        *,
        task: SpeechTask,
    ) -> None:
        self._inference = inference
        self._open_requests = open_requests
        self._settings = settings
        self._task: SpeechTask = task

    async def on_post(self, request: Request, response: Response) -> None:
        """Write down what is said. A client that leaves stops the work."""
        self._open_requests.enter(request.scope)
        formatter = OpenAITranscriptionFormatter(self._task)
        deadline = Deadline(self._settings.request_timeout_seconds)
        form = await read_form(
            request, self._inference.preparation, limit_bytes=self._settings.max_body_bytes
        )
        async with deadline.limit():
            asked = formatter.parse(form)
            await self._inference.manager.find(asked.model, "transcription")
            has_ended = Event()
            call_at_end(request.scope, has_ended.set)
            sound = await asyncio.to_thread(AudioFile, asked.file, is_canceled=has_ended)
            result = await self._inference.transcribe(
                TranscriptionRequest(
                    model=asked.model,
                    num_samples=sound.num_samples,
                    read_window=sound.read_window,
                    task=asked.task,
                    language=asked.language,
                    prompt=asked.prompt,
                    temperature=asked.temperature,
                    request_id=request.context.request_id,
                )
            )
        response.data = formatter.whole(result)
        response.content_type = formatter.media_type
