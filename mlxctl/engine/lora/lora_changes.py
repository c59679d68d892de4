"""Mounts and unmounts LoRA adapters between steps, a piece at a time.

MLX thread only.
"""

import time
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

import mlx.core as mx

from mlxctl.engine.host.failures import FOREIGN_ERRORS
from mlxctl.engine.memory import EngineMemory
from mlxctl.engine.wire.commands import MountLora, UnmountLora
from mlxctl.engine.wire.messages import AnyReport
from mlxctl.engine.wire.reports import LoraChanged
from mlxctl.ir.errors import describe_bytes

if TYPE_CHECKING:
    from mlxctl.engine.lora.lora_adapters import LoraAdapters

# How long one turn of a change may delay decoding rows.
_SLICE_SECONDS = 0.005
_IDLE_SLICE_SECONDS = 0.1

_END = object()

Change = MountLora | UnmountLora


class LoraChanges:
    """Mounts and unmounts adapters of all models, in order, one by one."""

    def __init__(
        self,
        memory: EngineMemory,
        publish: Callable[[AnyReport], None],
        is_in_use: Callable[[str, str], bool],
    ) -> None:
        """`is_in_use` takes the names of a model and an adapter.

        It returns whether a sequence of the model uses the adapter.
        """
        self._memory = memory
        self._publish = publish
        self._is_in_use = is_in_use
        self._waiting: list[tuple[Change, LoraAdapters]] = []
        self._pieces: Generator[None, None, None] | None = None

    @property
    def has_work(self) -> bool:
        """Whether changes are open."""
        return bool(self._waiting)

    def is_changing(self, model: str) -> bool:
        """Whether a change of the model is open."""
        return any(change.model == model for change, _ in self._waiting)

    def add(self, change: Change, adapters: "LoraAdapters | None") -> None:
        """Queue a change; without `adapters` its model is not loaded."""
        if adapters is None:
            self._answer(change, f"model {change.model!r} is not loaded")
        else:
            self._waiting.append((change, adapters))

    def refuse(self, change: Change, problem: str) -> None:
        """Answer a change that cannot be made."""
        self._answer(change, problem)

    def step(self, *, has_rows: bool) -> None:
        """Work on the first change for a moment, and publish its end."""
        if not self._waiting:
            return
        change, adapters = self._waiting[0]
        until = time.monotonic() + (_SLICE_SECONDS if has_rows else _IDLE_SLICE_SECONDS)
        failure = ""
        try:
            self._pieces = self._pieces or self._begin(change, adapters)
            while time.monotonic() < until:
                if next(self._pieces, _END) is _END:
                    break
            else:
                return
        except (*FOREIGN_ERRORS, OSError) as error:
            failure = str(error)
        self._pieces = None
        self._waiting.pop(0)
        mx.clear_cache()
        self._answer(change, failure)

    def _begin(self, change: Change, adapters: "LoraAdapters") -> Generator[None, None, None]:
        if isinstance(change, UnmountLora):
            if self._is_in_use(change.model, change.name):
                raise ValueError(f"adapter {change.name!r} is in use; try again when its requests have ended")
            return adapters.unmount(change.name)
        needed, available = adapters.bytes_to_mount(change.spec), self._memory.available_bytes
        if needed > available:
            raise ValueError(
                f"adapter {change.spec.name!r} needs {describe_bytes(needed)} to be mounted, but the memory "
                f"limit leaves {describe_bytes(max(0, available))}"
            )
        return adapters.mount(change.spec)

    def _answer(self, change: Change, failure: str) -> None:
        self._publish(LoraChanged(token=change.token, failure=failure))
