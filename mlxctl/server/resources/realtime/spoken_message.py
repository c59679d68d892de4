"""The speech of one message, while its text is still written.

Event-loop thread only.
"""

import asyncio
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

import msgspec

from mlxctl.formats.adapters.media.telephone_audio import TelephoneEncoder
from mlxctl.inference.speech.sentences import SentenceStream
from mlxctl.ir.audio_format import Law
from mlxctl.server.http.web_socket import WebSocket
from mlxctl.server.resources.realtime.input_audio import BYTES_A_SECOND
from mlxctl.server.resources.realtime.streamed_request import stream_events

_PATH = "/v1/audio/speech"
# Most text of one request.
_MAX_CHARS = 4000
# Of base64 in one event: two seconds. Whole samples, and less than the 512 KiB that Open WebUI takes.
_MAX_DELTA_CHARS = 128_000


class SpokenMessage:
    """Speaks the sentences that are complete, one request after the other.

    A request speaks what was written during the one before. `options` are its other fields; `on_audio` gets
    base64 of 24 kHz 16-bit samples, or of bytes of the `law`.
    """

    def __init__(
        self,
        socket: WebSocket,
        options: dict[str, Any],
        *,
        law: Law | None,
        on_audio: Callable[[str], Awaitable[None]],
    ) -> None:
        self.num_audio_tokens = 0
        self._socket = socket
        self._options = options
        self._on_audio = on_audio
        self._encoder = TelephoneEncoder(law) if law else None
        self._sentences = SentenceStream()
        self._pieces: list[str] = []
        self._is_whole = False
        self._changed = asyncio.Event()
        # Letters spoken and bytes of samples after each request, both of all so far.
        self._marks = [(0, 0)]

    def feed(self, text: str) -> None:
        """Take more text."""
        self._pieces += self._sentences.feed(text)
        self._changed.set()

    def finish(self) -> None:
        """The text is complete."""
        self._pieces += self._sentences.finish()
        self._is_whole = True
        self._changed.set()

    async def run(self) -> None:
        """Speak until the end of the text. Raises RequestFailed."""
        while not (self._is_whole and not self._pieces):
            await self._changed.wait()
            self._changed.clear()
            while self._pieces:
                text = self._pieces.pop(0)
                while self._pieces and len(text) + len(self._pieces[0]) < _MAX_CHARS:
                    text += f" {self._pieces.pop(0)}"
                await self._speak(text)
        if self._encoder is not None and self.num_bytes:
            await self._on_audio(b64encode(self._encoder.finish()).decode())

    @property
    def num_bytes(self) -> int:
        """Bytes of the samples so far."""
        return self._marks[-1][1]

    def heard(self, text: str, milliseconds: int) -> str:
        """Return the whole words that are spoken in this time."""
        num_bytes = milliseconds * BYTES_A_SECOND // 1000
        num_letters = 0.0
        for (letters, start), (more, end) in zip(self._marks, self._marks[1:], strict=False):
            if start < num_bytes:
                num_letters = letters + (more - letters) * min(1.0, (num_bytes - start) / (end - start))
        for place, character in enumerate(text):
            num_letters -= not character.isspace()
            if num_letters < 0:
                return text[:place] if character.isspace() else " ".join(text[:place].split(" ")[:-1])
        return text

    async def _speak(self, text: str) -> None:
        if not any(map(str.isalnum, text)):
            return
        letters, num_bytes = self._marks[-1]
        self._marks.append((letters + len("".join(text.split())), num_bytes))
        body = msgspec.json.encode(self._options | {"input": text})
        async with aclosing(stream_events(self._socket, _PATH, body)) as events:
            async for event in events:
                if audio := event.get("audio"):
                    for start in range(0, len(audio), _MAX_DELTA_CHARS):
                        await self._send(audio[start : start + _MAX_DELTA_CHARS])
                elif usage := event.get("usage"):
                    self.num_audio_tokens += usage["output_tokens"]

    async def _send(self, audio: str) -> None:
        letters, num_bytes = self._marks[-1]
        self._marks[-1] = letters, num_bytes + len(audio) * 3 // 4 - audio[-2:].count("=")
        if self._encoder is not None:
            audio = b64encode(self._encoder.feed(b64decode(audio))).decode()
        await self._on_audio(audio)
