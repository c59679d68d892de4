"""The models in the engine and the memory that they share.

MLX thread only.
"""

import gc
from typing import Protocol

import mlx.core as mx

from mlxctl.engine.backend import Backend
from mlxctl.engine.host.process_memory import MachineMemory, ProcessOverhead
from mlxctl.engine.loaded_weights import LoadedWeights
from mlxctl.engine.loading.loader import Loader, ModelLoad
from mlxctl.engine.prefix_caches import PrefixCaches, SplitRecord
from mlxctl.ir import ModelSpec
from mlxctl.ir.cache_policy import CachePolicy
from mlxctl.ir.conversation_size import PREFIX_CACHE_SHARE
from mlxctl.ir.errors import describe_bytes
from mlxctl.prefix_cache.disk.tier import DiskTier
from mlxctl.prefix_cache.packing import Packing
from mlxctl.prefix_cache.splitting import split_record

# The last conversation is held twice, for a next turn without a copy, only where that takes little memory.
_WORKING_CACHE_SHARE = 1 / 32
# A process may have a limited number of buffers, however small. The prefix cache may hold this share of them.
_BUFFERS_SHARE = 0.5


class WorkingCaches(Protocol):
    """Caches of a model, released when memory is needed."""

    @property
    def kept_bytes(self) -> int:
        """Bytes that releasing them would free."""

    def release_working_caches(self) -> None:
        """Free the working caches."""

    @property
    def preempted_bytes(self) -> int:
        """Bytes of the caches of preempted rows."""

    def release_preempted(self) -> None:
        """Free the caches of preempted rows."""


class EngineMemory:
    """Loaded models, the loading model and prefix caches, under one limit.

    `limit_bytes` bounds the arrays of MLX (weights, caches, what passes compute) with the freed buffers that
    MLX keeps for reuse, and the `overhead` of the process if it is given. `machine` is the memory that the
    machine has left: where others take it, caches are dropped and prompts wait, but no row ends. One model is
    loaded at a time, piece by piece between steps.
    """

    def __init__(
        self,
        *,
        backend: Backend,
        limit_bytes: int,
        prefix_cache_bytes: int | None,
        disk: DiskTier | None = None,
        packing: Packing | None = None,
        split: SplitRecord = split_record,
        overhead: ProcessOverhead | None = None,
        machine: MachineMemory | None = None,
    ) -> None:
        self.limit_bytes = limit_bytes
        self._overhead = overhead
        self._machine = machine
        self.prefixes = PrefixCaches(
            max_bytes=(
                int(limit_bytes * PREFIX_CACHE_SHARE) if prefix_cache_bytes is None else prefix_cache_bytes
            ),
            max_buffers=int(
                int(mx.device_info().get("resource_limit", backend.max_buffers)) * _BUFFERS_SHARE
            ),
            disk=disk,
            packing=packing,
            split=split,
        )
        self._working_caches: dict[str, WorkingCaches] = {}
        # References, so that `unload` frees the weights between its two measurements.
        self._weights: dict[str, LoadedWeights] = {}
        self._loading: ModelLoad | None = None
        mx.set_cache_limit(backend.buffer_cache_bytes(limit_bytes))
        # Above it, an evaluation waits for its first operations before it allocates for later ones.
        mx.set_memory_limit(limit_bytes)

    @property
    def loading(self) -> ModelSpec | None:
        """The model that is being loaded."""
        return self._loading.spec if self._loading else None

    @property
    def num_bytes_loaded(self) -> int:
        """Bytes of the loading model that are in memory."""
        return self._loading.num_bytes_read if self._loading else 0

    def begin_load(self, spec: ModelSpec, load: Loader) -> None:
        """Begin to load a model, after evicting prefixes for its weights.

        `load_step` does the work.
        """
        assert self._loading is None, "one model is loaded at a time"
        excess = self._used_bytes + spec.weights_bytes - self.limit_bytes
        if excess > 0:
            self._free(excess)
        self._loading = ModelLoad(
            spec, load, available_bytes=self._limited_bytes, limit_bytes=self.limit_bytes
        )

    def load_step(self, *, seconds: float) -> LoadedWeights | None:
        """Load for about `seconds`; return the model when it is complete.

        Raises ModelNotFoundOnDisk, BrokenModel, NotEnoughMemory.
        """
        loading = self._loading
        assert loading is not None, "begin_load comes first"
        try:
            weights = loading.step(seconds=seconds)
        except BaseException:
            self._loading = None
            raise
        if weights is not None:
            self._loading = None
            self._weights[loading.spec.name] = weights
        return weights

    def unload(self, name: str) -> tuple[int, int]:
        """Free a model that is not in use, or stop loading it.

        Returns the bytes of its weights and the bytes really freed; zeros for an unknown model. Its cached
        prefixes stay until memory is needed: the same weights may be loaded again.
        """
        before = int(mx.get_active_memory())
        if self._loading is not None and self._loading.spec.name == name:
            weights_bytes = self._loading.stop()
            self._loading = None
        else:
            self._working_caches.pop(name, None)
            weights = self._weights.pop(name, None)
            weights_bytes = weights.weights_bytes if weights is not None else 0
            del weights
        # Modules of a model refer to each other, so that only the collector frees them.
        gc.collect()
        self.trim()
        return weights_bytes, before - int(mx.get_active_memory())

    def configure_cache(self, policy: CachePolicy) -> None:
        """Change size, quantization and times to live of the prefix cache.

        A smaller size evicts at once.
        """
        self.prefixes.configure(policy)
        self.make_room()

    def add_working_caches(self, name: str, caches: WorkingCaches) -> None:
        """Include a model's working caches in the budget, until it is unloaded.

        They are released when memory is short.
        """
        self._working_caches[name] = caches

    @property
    def cache_capacity_bytes(self) -> int:
        """Bytes left for caches beside the weights, if nothing else ran."""
        return self.limit_bytes - sum(weights.weights_bytes for weights in self._weights.values())

    def cache_capacity_beside(self, model: str) -> int:
        """Bytes for caches if only this model were loaded."""
        weights = self._weights.get(model)
        return self.limit_bytes - (weights.weights_bytes if weights else 0)

    def describe_shortage(self, needed_bytes: int) -> str:
        """Return why there is no memory for a request of `needed_bytes`.

        The message has figures measured now, and remedies.
        """
        weights = {name: weights.weights_bytes for name, weights in self._weights.items()}
        freeable = self.kept_bytes + self.preempted_bytes
        running = max(0, int(mx.get_active_memory()) - sum(weights.values()) - freeable)
        held = [f"the weights of {name} {describe_bytes(size)}" for name, size in weights.items()]
        if self._loading is not None:
            held.append(f"model {self._loading.spec.name}, which is being loaded")
        if overhead := self._overhead_bytes:
            held.append(f"the engine process {describe_bytes(overhead)}")
        return (
            f"the request needs {describe_bytes(needed_bytes)}, and "
            f"{describe_bytes(max(0, self.available_bytes))} of {describe_bytes(self.limit_bytes)} are free; "
            f"held by: {', '.join(held)}, running requests {describe_bytes(running)}; "
            "shorten the prompt, wait, unload a model, or raise --memory-limit"
        )

    def describe_limit(self, num_tokens: int, needed_bytes: int) -> str:
        """Return why a row of this length cannot continue alone."""
        weights = sum(weights.weights_bytes for weights in self._weights.values())
        return (
            f"at {num_tokens} tokens the request fills the memory limit of "
            f"{describe_bytes(self.limit_bytes)} beside {describe_bytes(weights)} of weights: the next step "
            f"needs {describe_bytes(needed_bytes)} more; shorten the prompt, lower max_tokens, "
            "unload a model, or raise --memory-limit"
        )

    @property
    def available_bytes(self) -> int:
        """Bytes that can still be allocated.

        Caches that can be freed count as available. Memory that other processes take does not.
        """
        freeable = self.kept_bytes + self.preempted_bytes
        return min(self._limited_bytes, self._machine_bytes + freeable)

    @property
    def _limited_bytes(self) -> int:
        """Bytes that the limit leaves, with caches that can be freed."""
        still_to_read = (
            max(0, self._loading.spec.weights_bytes - self._loading.num_bytes_read) if self._loading else 0
        )
        freeable = self.kept_bytes + self.preempted_bytes
        return self.limit_bytes - self._used_bytes - still_to_read + freeable

    @property
    def unused_bytes(self) -> int:
        """Bytes that can be allocated without freeing anything."""
        return self.limit_bytes - self._used_bytes

    def make_room(self, num_bytes: int = 0) -> bool:
        """Free cached prefixes until `num_bytes` can be allocated within the limit.

        Returns whether that suffices. Freed buffers that MLX keeps for reuse count as in use, and are
        released first, then working caches, then prefixes. Until the next call, what the prefix cache stores
        takes no more than is left.
        """
        index = self.prefixes.index
        excess = self._used_bytes + num_bytes - min(self.limit_bytes, self._used_bytes + self._machine_bytes)
        if excess + int(mx.get_cache_memory()) > 0:
            mx.clear_cache()
        if excess > 0:
            before = self._used_bytes
            self._free(excess)
            mx.clear_cache()
            if self._machine is not None:
                self._machine.note_freed(before - self._used_bytes)
        working = self.kept_bytes - index.num_bytes
        if self.kept_bytes > index.max_bytes or working > self.limit_bytes * _WORKING_CACHE_SHARE:
            self.release_working_caches()
        left = self.limit_bytes - self._used_bytes - num_bytes
        index.ceiling_bytes = max(0, index.num_bytes + left)
        return left >= 0

    @property
    def kept_bytes(self) -> int:
        """Bytes of cached prefixes and working caches."""
        return self.prefixes.index.num_bytes + sum(
            caches.kept_bytes for caches in self._working_caches.values()
        )

    @property
    def preempted_bytes(self) -> int:
        """Bytes of the caches of preempted rows.

        They are outside the budget of the prefix cache.
        """
        return sum(caches.preempted_bytes for caches in self._working_caches.values())

    def release_working_caches(self) -> None:
        """Free the working caches of all models.

        The prefix cache holds the same tokens.
        """
        for caches in self._working_caches.values():
            caches.release_working_caches()

    @property
    def _used_bytes(self) -> int:
        return int(mx.get_active_memory()) + self._overhead_bytes

    @property
    def _machine_bytes(self) -> int:
        """Bytes that the machine has left, for all its processes."""
        return self.limit_bytes if self._machine is None else self._machine.num_bytes()

    @property
    def _overhead_bytes(self) -> int:
        if self._overhead is None:
            return 0
        return self._overhead.num_bytes(int(mx.get_active_memory()) + int(mx.get_cache_memory()))

    def _free(self, num_bytes: int) -> None:
        """Free this many bytes of caches.

        Caches of preempted rows are freed after those of the last conversations.
        """
        wanted = self.kept_bytes + self.preempted_bytes - num_bytes
        self.release_working_caches()
        if self.kept_bytes + self.preempted_bytes > wanted:
            for caches in self._working_caches.values():
                caches.release_preempted()
        self.prefixes.index.shrink(max(0, wanted))

    def trim(self) -> None:
        """Drop expired prefixes and release MLX's freed buffers to the system."""
        self.prefixes.expire()
        mx.clear_cache()
