"""The audio of the user that is not yet an item.

Event-loop thread only.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from mlxctl.formats.adapters.media.telephone_audio import PCM_BYTES, TelephoneDecoder
from mlxctl.formats.adapters.media.turn_detection import Border, TurnDetector
from mlxctl.ir.audio_format import PCM_RATE, Law
from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols.openai.realtime.events import new_id
from mlxctl.protocols.openai.realtime.session import SemanticVad, ServerVad
from mlxctl.server.middleware.body_memory import BodyAccount

SAMPLE_BYTES = 2
BYTES_A_SECOND = PCM_RATE * SAMPLE_BYTES
# A policy: the longest turn, which is transcribed as one file.
_MAX_BYTES = 300 * BYTES_A_SECOND
_MIN_BYTES = BYTES_A_SECOND // 10
# Of the silence between turns, besides the prefix of the next one: what the detector decides about.
_UNDECIDED_SECONDS = 1

# A tenth of a second of audio takes 0.1 ms, and 0.5 ms from a telephone.
_DETECTORS = ThreadPoolExecutor(1, thread_name_prefix="turns")


class Turn(NamedTuple):
    """A turn that has begun, or ended with its audio."""

    item_id: str
    milliseconds: int
    audio: bytes | None


class InputAudio:
    """The buffer of 24 kHz 16-bit samples, and the turns in it.

    Audio of telephones is decoded first. What the buffer holds, and what was taken of it, counts in the
    `account`. Without turn detection a client takes turns itself.
    """

    def __init__(self, account: BodyAccount) -> None:
        self._account = account
        self._buffer = bytearray()
        # Samples before the buffer since the session began, and before the first of the detector.
        self._num_before = self._detector_start = 0
        self._detector: TurnDetector | None = None
        self._prefix_samples = 0
        self._turn_id: str | None = None
        self._decoder: TelephoneDecoder | None = None

    @property
    def milliseconds(self) -> int:
        """The length of all audio since the session began."""
        return (self._num_before + len(self._buffer) // SAMPLE_BYTES) * 1000 // PCM_RATE

    def read(self, law: Law | None) -> None:
        """Take audio of this law, None for 24 kHz samples."""
        self._decoder = TelephoneDecoder(law) if law else None

    def detect(self, asked: ServerVad | SemanticVad | None) -> None:
        """Begin to detect turns, or end it."""
        self._turn_id = self._detector = None
        if asked is not None:
            self._detector = TurnDetector(
                PCM_RATE, threshold=asked.threshold, silence_ms=asked.silence_duration_ms
            )
            self._detector_start = self._num_before + len(self._buffer) // SAMPLE_BYTES
            self._prefix_samples = asked.prefix_padding_ms * PCM_RATE // 1000

    async def append(self, audio: bytes) -> list[Turn]:
        """Add audio; return the turns that begin and end in it.

        Raises InvalidRequest, QueueFull.
        """
        if self._decoder is not None:
            audio = await decoded(self._decoder, audio)
        if len(audio) % SAMPLE_BYTES:
            message = "audio has half a sample; send 24,000 samples of 16 bits a second"
            raise InvalidRequest(message, param="audio", code="invalid_value")
        if len(self._buffer) + len(audio) > _MAX_BYTES and self._detector is None:
            message = (
                f"the buffer may have {_MAX_BYTES // BYTES_A_SECOND} seconds of audio; commit or clear it"
            )
            raise InvalidRequest(message, param="audio", code="input_audio_buffer_full")
        self._account.add(len(audio))
        self._buffer += audio
        if self._detector is None:
            return []
        feed = self._detector.feed
        borders = await asyncio.get_running_loop().run_in_executor(_DETECTORS, feed, audio)
        turns = [self._turn(border) for border in borders]
        if self._turn_id is None:
            kept = (self._prefix_samples + _UNDECIDED_SECONDS * PCM_RATE) * SAMPLE_BYTES
            self._take(len(self._buffer) - kept, is_kept=False)
        elif len(self._buffer) > _MAX_BYTES:
            self._detector.end_turn()
            turns.append(self._end_turn(len(self._buffer)))
        return turns

    def take_silence(self) -> Turn | None:
        """Take all audio as a turn without speech; None during a turn."""
        return None if self._turn_id else self._end_turn(len(self._buffer))

    def commit(self) -> Turn:
        """Take all audio as one turn. Raises InvalidRequest."""
        if len(self._buffer) < _MIN_BYTES:
            milliseconds = len(self._buffer) * 1000 / BYTES_A_SECOND
            message = f"the buffer has {milliseconds:.2f} ms of audio; at least 100 ms are needed for an item"
            raise InvalidRequest(message, code="input_audio_buffer_commit_empty")
        if self._detector is not None:
            self._detector.end_turn()
        return self._end_turn(len(self._buffer))

    def clear(self) -> None:
        """Forget all audio."""
        self._take(len(self._buffer), is_kept=False)
        self._turn_id = None
        if self._detector is not None:
            self._detector.end_turn()

    def _turn(self, border: Border) -> Turn:
        sample = border.sample + self._detector_start
        if not border.begins:
            return self._end_turn((sample - self._num_before) * SAMPLE_BYTES)
        self._turn_id = new_id("item")
        self._take((sample - self._prefix_samples - self._num_before) * SAMPLE_BYTES, is_kept=False)
        return Turn(self._turn_id, self._num_before * 1000 // PCM_RATE, None)

    def _end_turn(self, num_bytes: int) -> Turn:
        item_id, self._turn_id = self._turn_id or new_id("item"), None
        audio = self._take(num_bytes, is_kept=True)
        return Turn(item_id, self._num_before * 1000 // PCM_RATE, audio)

    def _take(self, num_bytes: int, *, is_kept: bool) -> bytes:
        """Remove the first bytes; return them if they are kept."""
        num_bytes = max(0, min(num_bytes, len(self._buffer)))
        taken = bytes(self._buffer[:num_bytes]) if is_kept else b""
        del self._buffer[:num_bytes]
        self._num_before += num_bytes // SAMPLE_BYTES
        self._account.remove(num_bytes - len(taken))
        return taken


async def decoded(decoder: TelephoneDecoder, audio: bytes) -> bytes:
    """Return audio of a telephone as samples.

    Raises InvalidRequest for more than a turn may have.
    """
    if len(audio) * PCM_BYTES > _MAX_BYTES:
        message = f"audio has more than {_MAX_BYTES // BYTES_A_SECOND} seconds; send it in parts"
        raise InvalidRequest(message, param="audio", code="invalid_value")
    return await asyncio.get_running_loop().run_in_executor(_DETECTORS, decoder.feed, audio)
