"""The stream of another server's transcription. Pure."""

from typing import Any

import msgspec

from mlxctl.inference.remote.server_answers import LineReader, decode_answer
from mlxctl.ir import SpeechSegment, TranscriptionResult
from mlxctl.ir.errors import ConnectionLost, SequenceFailed

_DATA = b"data:"
_END = b"[DONE]"


class _Event(msgspec.Struct, frozen=True):
    type: str = ""
    delta: str = ""
    start: float = 0.0
    end: float = 0.0
    duration: float = 0.0
    text: str | None = None
    error: dict[str, Any] | None = None


class TranscriptionEvents:
    """Reads `transcript.text.delta` and `transcript.text.done`.

    `duration` is that of the file in seconds, so far as it is known. Servers other than mlxctl's send no
    times: their segments begin and end at 0.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._lines = LineReader()
        self._segments: list[SpeechSegment] = []
        self.duration = 0.0
        self._is_done = False

    def feed(self, data: bytes) -> list[SpeechSegment]:
        """Return the segments that these bytes complete.

        Raises SequenceFailed for an error of the server, UnknownResource for another format.
        """
        found = [
            segment
            for line in self._lines.feed(data)
            if line.startswith(_DATA) and (segment := self._segment(line.removeprefix(_DATA).strip()))
        ]
        self._segments += found
        return found

    def result(self) -> TranscriptionResult:
        """Return the whole transcription. Raises ConnectionLost if the stream has not ended."""
        if not self._is_done:
            raise ConnectionLost("the server closed the connection during the transcription")
        return TranscriptionResult(
            language=None, duration_seconds=self.duration, segments=tuple(self._segments)
        )

    def _segment(self, data: bytes) -> SpeechSegment | None:
        if data == _END:
            return None
        event = decode_answer(data, _Event, url=self._url)
        if event.error is not None:
            raise SequenceFailed(str(event.error.get("message", "the server failed")))
        self._is_done = self._is_done or event.type == "transcript.text.done"
        self.duration = max(self.duration, event.duration)
        if event.type != "transcript.text.delta":
            return None
        return SpeechSegment(start=event.start, end=event.end, text=event.delta)
