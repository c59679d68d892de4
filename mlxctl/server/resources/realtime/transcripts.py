"""The transcription of turns, by requests of the WebSocket.

Event-loop thread only.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from secrets import token_hex
from typing import Any

from msgspec.structs import replace

from mlxctl.formats.adapters.media.speech_files import wav_header
from mlxctl.ir.audio_format import PCM_RATE
from mlxctl.ir.errors import InvalidRequest, MlxctlError
from mlxctl.protocols.openai.errors import error_detail
from mlxctl.protocols.openai.realtime.events import event
from mlxctl.protocols.openai.realtime.items import MessageItem
from mlxctl.protocols.openai.realtime.session import InputTranscription, Session
from mlxctl.server.http.web_socket import WebSocket
from mlxctl.server.resources.realtime.audio_models import AudioModels
from mlxctl.server.resources.realtime.streamed_request import RequestFailed, stream_events

_PATH = "/v1/audio/transcriptions"
# More turns than that are sent faster than they can be heard.
_MAX_TURNS = 16
_KIND = "conversation.item.input_audio_transcription"


class Transcripts:
    """Transcribes the audio of messages, and sends the events of it.

    `tasks` are those that run.
    """

    def __init__(self, socket: WebSocket, models: AudioModels) -> None:
        self.tasks: set[asyncio.Task[None]] = set()
        self._socket = socket
        self._models = models

    def check_room(self) -> None:
        """Raise InvalidRequest if too many turns wait."""
        if len(self.tasks) >= _MAX_TURNS:
            message = f"{_MAX_TURNS} turns wait for their transcription; send audio as it is spoken"
            raise InvalidRequest(message, code="rate_limit_exceeded")

    def begin(self, item: MessageItem, session: Session) -> None:
        """Transcribe a message's audio, which the account of the WebSocket has."""
        task = asyncio.create_task(self._transcribe(item, session), name="realtime-transcript")
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _transcribe(self, item: MessageItem, session: Session) -> None:
        for index, part in enumerate(item.content):
            audio, part.audio = part.audio, None
            if audio is None:
                continue
            place = {"item_id": item.id, "content_index": index}
            try:
                part.transcript = await self._hear(audio, session, place)
            except RequestFailed as error:
                await self._send("failed", place, error=error.error)
            except MlxctlError as error:
                await self._send("failed", place, error=error_detail(error))
            finally:
                self._socket.account.remove(len(audio))

    async def _hear(self, audio: bytes, session: Session, place: dict[str, Any]) -> str:
        """Return the text of audio. Raises RequestError, RequestFailed."""
        asked = session.audio.input.transcription
        model = await self._models.hearing(session)
        if model is None:
            message = "the server has no transcription model; serve one beside the chat model"
            raise InvalidRequest(message, code="model_not_found")

        async def send_delta(delta: str) -> None:
            if asked is not None:
                await self._send("delta", place, delta=delta)

        named = replace(asked or InputTranscription(), model=model)
        text, usage = await _transcribe(self._socket, audio, named, on_delta=send_delta)
        if asked is not None:
            await self._send("completed", place, transcript=text, usage=usage)
        return text

    async def _send(self, kind: str, place: dict[str, Any], **fields: Any) -> None:
        await self._socket.send_text(event(f"{_KIND}.{kind}", **place, **fields))


async def _transcribe(
    socket: WebSocket,
    audio: bytes,
    asked: InputTranscription,
    *,
    on_delta: Callable[[str], Awaitable[None]],
) -> tuple[str, dict[str, Any]]:
    """Return the text of 24 kHz samples, and the usage.

    Raises RequestFailed.
    """
    boundary = token_hex(16)
    fields = [("model", asked.model or ""), ("stream", "true")]
    fields += [(name, value) for name in ("language", "prompt") if (value := getattr(asked, name))]
    fields += [("languages[]", value) for value in asked.languages or ()]
    fields += [("keywords[]", value) for value in asked.keywords or ()]
    head = "".join(
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields
    )
    file = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="turn.wav"\r\n\r\n'
    body = b"".join(
        ((head + file).encode(), wav_header(PCM_RATE, len(audio)), audio, f"\r\n--{boundary}--\r\n".encode())
    )
    text, usage = "", {}
    content_type = f"multipart/form-data; boundary={boundary}"
    async with aclosing(stream_events(socket, _PATH, body, content_type=content_type)) as events:
        async for each in events:
            if each["type"] == "transcript.text.delta":
                await on_delta(each["delta"])
            elif each["type"] == "transcript.text.done":
                text, usage = each["text"], each["usage"]
    return text, usage
