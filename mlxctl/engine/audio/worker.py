"""Has windows of sound written down between the steps of the others, one at a time. MLX thread only."""

import time
from collections import deque
from collections.abc import Generator, Iterable

from mlxctl.engine.audio.transcriber import Transcriber, Writing
from mlxctl.engine.foreign_errors import FOREIGN_ERRORS
from mlxctl.engine.wire.messages import Transcribe, Transcribed, TranscribedWindow

# How long a slice may take when nobody waits for a token: a request that arrives meanwhile waits so long.
_ALONE_SECONDS = 0.1


class TranscriptionWorker:
    """The speech models that are loaded, and the windows that wait for them.

    One window holds memory at a time, that of its layers and its text; requests take turns by sending a
    window after the other. A slice ends with the unit (see `Listener`) in which its time is up: a decode
    step's time where rows wait for their next token.
    """

    def __init__(self, *, slice_seconds: float) -> None:
        self._slice_seconds = slice_seconds
        self._decode_seconds = 0.0
        self._listeners: dict[str, Transcriber] = {}
        self._waiting: deque[Transcribe] = deque()
        self._writing: Generator[None, None, Writing] | None = None

    @property
    def has_work(self) -> bool:
        """Whether a step would do anything."""
        return bool(self._waiting)

    def open_model(self, name: str, listener: Transcriber) -> None:
        """Accept windows for the model from now on."""
        self._listeners[name] = listener

    def close_model(self, name: str) -> None:
        """Let go of a model, which must not be in use; one that is not here is no speech model."""
        assert not self.is_in_use(name), "a model goes after its windows"
        self._listeners.pop(name, None)

    def is_in_use(self, name: str) -> bool:
        """Whether windows for the model wait."""
        return any(job.window.model == name for job in self._waiting)

    def add(self, job: Transcribe) -> Transcribed | None:
        """Take a window, or say why not."""
        if job.window.model not in self._listeners:
            return Transcribed(job_id=job.job_id, failure=f"speech model {job.window.model!r} is not loaded")
        self._waiting.append(job)
        return None

    def drop(self, job_ids: Iterable[int]) -> None:
        """Forget these windows; unknown ids have ended already."""
        gone = set(job_ids)
        if self._waiting and self._waiting[0].job_id in gone:
            self._writing = None
        self._waiting = deque(job for job in self._waiting if job.job_id not in gone)

    def observe_decode(self, seconds: float) -> None:
        """Take the duration of a decode step of any model."""
        self._decode_seconds = seconds

    def step(self, *, contended: bool) -> Transcribed:
        """Go on for one slice and say what came of it.

        Needs `has_work`; `contended` says that rows wait for their next token.
        """
        job = self._waiting[0]
        until = time.monotonic() + min(
            self._slice_seconds, self._decode_seconds if contended else _ALONE_SECONDS
        )
        if self._writing is None:
            self._writing = self._listeners[job.window.model].write(job.window)
        try:
            next(self._writing)
            while time.monotonic() < until:
                next(self._writing)
        except StopIteration as end:
            return self._end(job, end.value)
        except FOREIGN_ERRORS as error:
            self.drop([job.job_id])
            return Transcribed(job_id=job.job_id, failure=f"transcription failed: {error}")
        return Transcribed(job_id=job.job_id)

    def _end(self, job: Transcribe, writing: Writing) -> Transcribed:
        self._writing = None
        self._waiting.popleft()
        return Transcribed(
            job_id=job.job_id,
            written=TranscribedWindow(
                token_ids=writing.token_ids,
                language_id=writing.language_id,
                mean_logprob=writing.mean_logprob,
                no_speech=writing.no_speech,
            ),
        )
