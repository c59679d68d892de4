"""The models in the engine and the memory that they share.

MLX thread only.
"""

import gc
import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import Protocol

import mlx.core as mx

from mlxctl.engine.backend import Backend
from mlxctl.engine.loaded_weights import LoadedWeights
from mlxctl.engine.loading.loader import Loader, load_in_pieces
from mlxctl.engine.loading.namespace import prefix_namespace
from mlxctl.engine.process_memory import ProcessOverhead
from mlxctl.engine.wire.reports import DiskFigures
from mlxctl.errors import describe_bytes
from mlxctl.ir import ModelSpec
from mlxctl.ir.cache_policy import CachePolicy
from mlxctl.prefix_cache.cache import PrefixCache
from mlxctl.prefix_cache.disk.reader import FetchedRecord
from mlxctl.prefix_cache.disk.tier import DiskTier
from mlxctl.prefix_cache.index import PrefixIndex
from mlxctl.prefix_cache.packing import Packing, Record
from mlxctl.prefix_cache.records import CacheLayout
from mlxctl.prefix_cache.splitting import split_record

# Share of the memory limit for cached prefixes, where the settings give no size.
_PREFIX_CACHE_SHARE = 0.2
# A process may have so many buffers, however small; the prefix cache may hold its share of them.
_BUFFERS_SHARE = 0.5
# Time at the engine's end to write cached prefixes to disk.
FLUSH_SECONDS = 8.0


@dataclass(slots=True, kw_only=True)
class _Loading:
    """The model being loaded.

    `num_bytes_read` of its weights are in memory.
    """

    spec: ModelSpec
    pieces: Generator[int, None, LoadedWeights]
    num_bytes_read: int = 0


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

    `limit_bytes` bounds weights and caches together, with the `overhead` of the process if it is given. One
    model is loaded at a time, piece by piece between steps.
    """

    def __init__(
        self,
        *,
        backend: Backend,
        limit_bytes: int,
        prefix_cache_bytes: int | None,
        disk: DiskTier | None = None,
        packing: Packing | None = None,
        overhead: ProcessOverhead | None = None,
    ) -> None:
        self.limit_bytes = limit_bytes
        self._overhead = overhead
        budget = int(limit_bytes * _PREFIX_CACHE_SHARE) if prefix_cache_bytes is None else prefix_cache_bytes
        self.disk = disk
        self._packing = packing
        self.prefixes: PrefixIndex[Record] = PrefixIndex(
            max_bytes=budget,
            max_buffers=int(
                int(mx.device_info().get("resource_limit", backend.max_buffers)) * _BUFFERS_SHARE
            ),
            buffers_of=lambda record: record.num_buffers,
            split=split_record,
            on_evict=disk.store if disk is not None else None,
        )
        # By namespace, of unloaded models as well: the same weights may be loaded again.
        self._caches: dict[bytes, PrefixCache] = {}
        self._names: dict[bytes, str] = {}
        self._working_caches: dict[str, WorkingCaches] = {}
        # Held here as well, so that `unload` frees the weights between its two measurements.
        self._weights: dict[str, LoadedWeights] = {}
        self._loading: _Loading | None = None
        mx.set_cache_limit(backend.buffer_cache_bytes(limit_bytes))

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
        pieces = load_in_pieces(
            spec, load, available_bytes=self.available_bytes, limit_bytes=self.limit_bytes
        )
        self._loading = _Loading(spec=spec, pieces=pieces)

    def load_step(self, *, seconds: float) -> LoadedWeights | None:
        """Load for about `seconds`; return the model when it is complete.

        Raises ModelNotFoundOnDisk, BrokenModel, NotEnoughMemory.
        """
        loading, until = self._loading, time.monotonic() + seconds
        assert loading is not None, "begin_load comes first"
        try:
            while time.monotonic() < until:
                loading.num_bytes_read = next(loading.pieces)
        except StopIteration as end:
            self._loading = None
            weights: LoadedWeights = end.value
            self._weights[loading.spec.name] = weights
            return weights
        except BaseException:
            self._loading = None
            raise
        return None

    def unload(self, name: str) -> tuple[int, int]:
        """Free a model that is not in use, or stop loading it.

        Returns the bytes of its weights and the bytes really freed; zeros for an unknown model. Its cached
        prefixes stay until memory is needed: the same weights may be loaded again.
        """
        before = int(mx.get_active_memory())
        if self._loading is not None and self._loading.spec.name == name:
            weights_bytes = self._stop_loading()
        else:
            self._working_caches.pop(name, None)
            weights = self._weights.pop(name, None)
            weights_bytes = weights.weights_bytes if weights is not None else 0
            del weights
        self.sweep()
        return weights_bytes, before - int(mx.get_active_memory())

    def prefix_cache(self, spec: ModelSpec, layout: CacheLayout) -> PrefixCache:
        """Return the prefix cache of a loaded model.

        Equal weights share it. Raises BrokenModel.
        """
        namespace = prefix_namespace(spec, self._packing)
        self._names[namespace] = spec.name
        if self.disk is not None:
            self.disk.set_model_name(namespace, spec.name)
        if namespace not in self._caches:
            self._caches[namespace] = PrefixCache(
                self.prefixes, namespace=namespace, layout=layout, disk=self.disk, packing=self._packing
            )
        return self._caches[namespace]

    def configure_cache(self, policy: CachePolicy) -> None:
        """Change size and times to live of the prefix cache.

        A smaller size evicts at once.
        """
        if policy.prefix_cache_bytes is not None:
            self.prefixes.max_bytes = policy.prefix_cache_bytes
        if self.disk is not None:
            self.disk.ttl_seconds = policy.cache_disk_ttl_seconds
        self.prefixes.evict()
        self.make_room()

    def add_working_caches(self, name: str, caches: WorkingCaches) -> None:
        """Count a model's working caches until it is unloaded.

        They are released when memory is short.
        """
        self._working_caches[name] = caches

    def model_names(self) -> dict[bytes, str]:
        """Return the model names of the cached prefixes, by namespace."""
        return dict(self._names)

    def cache_hits(self) -> tuple[dict[str, int], int]:
        """Return prefix cache hits by kind, and reused tokens.

        Over all models.
        """
        hits: dict[str, int] = {}
        for cache in self._caches.values():
            for kind, num in cache.counters.hits.items():
                hits[kind] = hits.get(kind, 0) + num
        return hits, sum(cache.counters.num_tokens_reused for cache in self._caches.values())

    @property
    def num_promotions(self) -> int:
        """Number of prompts whose prefix was read from disk."""
        return sum(cache.counters.num_promotions for cache in self._caches.values())

    def disk_figures(self) -> DiskFigures | None:
        """Return figures of the disk cache; None without one."""
        if self.disk is None:
            return None
        return DiskFigures(
            num_bytes=self.disk.index.num_bytes,
            file_bytes=self.disk.file_bytes,
            max_bytes=self.disk.max_bytes,
            num_chunks=len(self.disk.index),
            num_states=self.disk.index.num_states,
            num_dropped=self.disk.num_skipped,
            num_damaged=self.disk.num_damaged,
        )

    @property
    def cache_capacity_bytes(self) -> int:
        """Bytes left for caches beside the weights, if nothing else ran."""
        return self.limit_bytes - sum(weights.weights_bytes for weights in self._weights.values())

    def cache_capacity_beside(self, model: str) -> int:
        """Bytes for caches if only this model were loaded."""
        weights = self._weights.get(model)
        return self.limit_bytes - (weights.weights_bytes if weights else 0)

    def describe_shortage(self, needed_bytes: int) -> str:
        """Return why a cache of `needed_bytes` has no room.

        With figures measured now, and what helps.
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
            f"the request needs {describe_bytes(needed_bytes)} for its cache, and "
            f"{describe_bytes(max(0, self.available_bytes))} of {describe_bytes(self.limit_bytes)} are free; "
            f"held by: {', '.join(held)}, running requests {describe_bytes(running)}; "
            "shorten the prompt, wait, unload a model, or raise --memory-limit"
        )

    @property
    def available_bytes(self) -> int:
        """Bytes that can still be allocated.

        Counts caches that can be freed for it.
        """
        still_to_read = (
            max(0, self._loading.spec.weights_bytes - self._loading.num_bytes_read) if self._loading else 0
        )
        freeable = self.kept_bytes + self.preempted_bytes
        return self.limit_bytes - self._used_bytes - still_to_read + freeable

    def make_room(self) -> None:
        """Free cached prefixes above the memory or cache limit.

        Freed buffers that MLX keeps for reuse count as in use, and are released first.
        """
        excess = self._used_bytes - self.limit_bytes
        if excess + int(mx.get_cache_memory()) > 0:
            mx.clear_cache()
        if excess > 0:
            self._free(excess)
        if self.kept_bytes > self.prefixes.max_bytes:
            self.release_working_caches()

    @property
    def kept_bytes(self) -> int:
        """Bytes of cached prefixes and working caches."""
        return self.prefixes.num_bytes + sum(caches.kept_bytes for caches in self._working_caches.values())

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
    def _overhead_bytes(self) -> int:
        if self._overhead is None:
            return 0
        return self._overhead.num_bytes(int(mx.get_active_memory()) + int(mx.get_cache_memory()))

    def _free(self, num_bytes: int) -> None:
        """Free this many bytes of caches.

        Those of preempted rows come after the last conversations'.
        """
        wanted = self.kept_bytes + self.preempted_bytes - num_bytes
        self.release_working_caches()
        if self.kept_bytes + self.preempted_bytes > wanted:
            for caches in self._working_caches.values():
                caches.release_preempted()
        self.prefixes.shrink(max(0, wanted))

    def sweep(self) -> None:
        """Collect reference cycles of an unloaded model, then trim."""
        gc.collect()
        self.trim()

    def trim(self) -> None:
        """Drop expired prefixes and release MLX's freed buffers to the system."""
        self.tidy()
        mx.clear_cache()

    def tidy(self) -> None:
        """Drop expired prefixes in memory, and maintain the disk cache."""
        self.prefixes.expire()
        if self.disk is not None:
            self.disk.maintain()

    def disk_arrivals(self) -> list[FetchedRecord]:
        """Take the records that were read from disk since the last call."""
        return self.disk.arrivals() if self.disk is not None else []

    def close(self) -> None:
        """Write cached prefixes to disk, most recently used first, within FLUSH_SECONDS."""
        if self.disk is None:
            return
        deadline = time.monotonic() + FLUSH_SECONDS
        leaves = [chunk for chunk in self.prefixes.chunks() if not chunk.children]
        for leaf in reversed(leaves):
            self.disk.store(leaf, deadline=deadline)
        for leaf in leaves:
            self.disk.touch(leaf.key)
        self.disk.close(deadline=deadline)

    def _stop_loading(self) -> int:
        assert self._loading is not None
        loading, self._loading = self._loading, None
        loading.pieces.close()
        return loading.num_bytes_read
