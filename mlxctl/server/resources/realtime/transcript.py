"""The transcription of one turn, as a request of the WebSocket.

Event-loop thread only.
"""

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from secrets import token_hex
from typing import Any

from mlxctl.formats.adapters.media.speech_files import wav_header
from mlxctl.ir.audio_format import PCM_RATE
from mlxctl.protocols.openai.realtime.session import InputTranscription
from mlxctl.server.http.web_socket import WebSocket
from mlxctl.server.resources.realtime.streamed_request import stream_events

_PATH = "/v1/audio/transcriptions"


async def transcribe(
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
        async for event in events:
            if event["type"] == "transcript.text.delta":
                await on_delta(event["delta"])
            elif event["type"] == "transcript.text.done":
                text, usage = event["text"], event["usage"]
    return text, usage
