"""Interface between the engine's loop and each kind of work.

Kinds are generation, embedding, transcription, speech. MLX thread only.
"""

import time
from collections.abc import Callable, Generator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from mlxctl.engine.backend import Backend
from mlxctl.engine.loaded_weights import LoadedWeights
from mlxctl.engine.memory import EngineMemory
from mlxctl.engine.ranks.group import RankGroup
from mlxctl.engine.wire.messages import AnyReport
from mlxctl.ir import ModelSpec
from mlxctl.state.settings import EngineSettings

DecodeObserver = Callable[[float, bool], None]
"""Takes the seconds of a decode step, and whether no prompt was prefilled beside it."""


@dataclass(slots=True)
class DecodeLoad:
    """Decode steps of generation, by which other workloads size their slices.

    `has_rows` returns whether rows wait for their next token. `step_seconds` is the time of the last step.
    """

    has_rows: Callable[[], bool] = lambda: False
    step_seconds: float = 0.0
    observers: list[DecodeObserver] = field(default_factory=list)

    def observe(self, seconds: float, *, alone: bool) -> None:
        """Report a decode step to all observers."""
        self.step_seconds = seconds
        for observer in self.observers:
            observer(seconds, alone)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadContext:
    """What the loop gives every workload.

    `publish` sends a report to the front and raises FrontGoneError; `wake`, callable from any thread, ends
    the loop's wait for commands. With a `group` this is its rank 0.
    """

    settings: EngineSettings
    backend: Backend
    memory: EngineMemory
    publish: Callable[[AnyReport], None]
    wake: Callable[[], None]
    group: RankGroup | None = None
    decode_load: DecodeLoad = field(default_factory=DecodeLoad)

    def slice_end(self, *, alone_seconds: float) -> float:
        """Return when a slice that begins now ends (monotonic clock).

        It takes as long as a decode step while rows decode, else `alone_seconds`. The unit of work that runs
        then is its last.
        """
        longest = self.decode_load.step_seconds if self.decode_load.has_rows() else alone_seconds
        return time.monotonic() + min(self.settings.prefill_turn_seconds, longest)


class Workload(Protocol):
    """One kind of work on loaded models, done in slices.

    Slices alternate with those of other workloads. The loop gives it the models whose task is a `task_type`,
    the commands of `command_types`, and one `step` in every turn.
    """

    task_type: ClassVar[type]
    command_types: ClassVar[tuple[type, ...]]

    @property
    def has_work(self) -> bool:
        """Whether requests are open."""

    @property
    def is_blocked(self) -> bool:
        """Whether every open request waits for a call of `wake`.

        A step then does nothing.
        """
        return False

    def load(self, spec: ModelSpec) -> Generator[int, None, LoadedWeights]:
        """Load a model piece by piece.

        Each piece yields the bytes read so far. Raises OSError and FOREIGN_ERRORS.
        """

    def open_model(self, spec: ModelSpec, weights: LoadedWeights) -> None:
        """Accept requests for a loaded model. Raises ModelError."""

    def close_model(self, name: str) -> None:
        """Release a model that is not in use."""

    def is_in_use(self, name: str) -> bool:
        """Whether requests for the model are open."""

    def take(self, command: Any) -> None:
        """Start what a command of `command_types` asks for.

        If that is impossible, publish the reason.
        """

    def cancel(self, ids: AbstractSet[int]) -> None:
        """Drop the requests with these ids.

        Nothing more of them is published; unknown ids are ignored.
        """

    def step(self) -> None:
        """Compute one slice, if there is work, and publish its results."""

    def close(self) -> None:
        """Release threads when the engine ends."""
        return
