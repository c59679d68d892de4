"""The open requests of one speech model, and their turns.

MLX thread only.
"""

from collections import deque
from collections.abc import Callable, Generator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Protocol

import mlx.core as mx
import numpy as np

from mlxctl.engine.host.failures import FOREIGN_ERRORS, failure_message
from mlxctl.engine.wire.jobs import Speak, Spoken

SPEECH_ERRORS = (*FOREIGN_ERRORS, ImportError, OSError)
"""What speaking may raise: mlx-audio also imports and reads voices while it speaks."""

_WORD_BITS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Sound:
    """Samples (num_samples,), float, and the tokens since the previous sound."""

    samples: mx.array
    num_text_tokens: int = 0
    num_audio_tokens: int = 0


Unit = Generator[list[mx.array] | None, None, list[Spoken]]
"""A unit of work, and its reports.

It pauses where it yields None, and may pause where it yields arrays, when they are evaluated.
"""


class SpeechBatch(Protocol):
    """Requests of one model.

    A `step` is one unit of work, or a part of it.
    `add` and `step` raise nothing: what fails is in the reports.
    """

    max_rows: int

    @property
    def num_rows(self) -> int:
        """Requests that are being computed."""

    def add(self, job: Speak) -> None:
        """Begin a request."""

    def drop(self, ids: AbstractSet[int]) -> None:
        """End requests without a report; unknown ids are ignored."""

    def step(self, *, finely: bool) -> list[Spoken]:
        """Compute one unit and return its reports.

        A model whose units are long divides them, `finely` into more parts than is fast; a part that does not
        end its unit has no reports.
        """


Speaker = Callable[[Speak], Generator[Sound | None, None, None]]
"""Speaks a text; pauses after every unit of work, with the samples that are complete."""


class TurnTaking:
    """Requests that take turns, a unit each.

    For models that compute one request at a time.
    """

    max_rows = 4

    def __init__(self, speak: Speaker) -> None:
        self._speak = speak
        self._rows: deque[_Row] = deque()

    @property
    def num_rows(self) -> int:
        return len(self._rows)

    def add(self, job: Speak) -> None:
        self._rows.append(_Row(job=job, units=self._speak(job), random=RandomState(job.seed)))

    def drop(self, ids: AbstractSet[int]) -> None:
        self._rows = deque(row for row in self._rows if row.job.job_id not in ids)

    def step(self, *, finely: bool) -> list[Spoken]:  # noqa: ARG002
        row = self._rows.popleft()
        try:
            with row.random:
                sound = next(row.units)
            spoken = report(row.job, sound)
        except StopIteration:
            return [Spoken(job_id=row.job.job_id, is_last=True)]
        except SPEECH_ERRORS as error:
            return [failed(row.job, error)]
        self._rows.append(row)
        return [spoken]


@dataclass(slots=True, kw_only=True)
class _Row:
    job: Speak
    units: Generator[Sound | None, None, None]
    random: "RandomState"


class RandomState:
    """MLX's random numbers of one request, in force inside of the block.

    mlx-audio draws from the state of the thread, which all requests share.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def __enter__(self) -> None:
        mx.random.seed(self._seed)

    def __exit__(self, *_: object) -> None:
        state: Any = mx.random.state
        high, low = state[0].tolist()
        self._seed = high << _WORD_BITS | low


def report(job: Speak, sound: Sound | None) -> Spoken:
    """Return the report of a sound; without one, the work continues.

    Raises ValueError for samples that are not finite.
    """
    if sound is None:
        return Spoken(job_id=job.job_id)
    samples: Any = np.array(sound.samples.astype(mx.float32))
    if not np.isfinite(samples).all():
        raise ValueError("the model's samples are not finite")
    return Spoken(
        job_id=job.job_id,
        samples=samples.clip(-1.0, 1.0).astype("<f4").tobytes(),
        num_text_tokens=sound.num_text_tokens,
        num_audio_tokens=sound.num_audio_tokens,
    )


def failed(job: Speak, error: BaseException) -> Spoken:
    """Return the report of a request that cannot be finished."""
    return Spoken(job_id=job.job_id, failure=failure_message(f"speech failed: {error}", job.request_id))
