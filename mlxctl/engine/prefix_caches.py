"""The prefix caches of all models, in memory and on disk.

MLX thread only.
"""

import time
from collections.abc import Callable
from hashlib import blake2b, file_digest
from pathlib import Path

from mlxctl.engine.wire.reports import DiskFigures
from mlxctl.ir import KVFormat, ModelSpec, TextGenerationTask
from mlxctl.ir.cache_policy import CachePolicy
from mlxctl.library.files import read_json_object
from mlxctl.library.fingerprint import fingerprint
from mlxctl.library.runtimes import text_package
from mlxctl.prefix_cache.cache import PrefixCache, StorageFormat
from mlxctl.prefix_cache.disk.reader import FetchedRecord
from mlxctl.prefix_cache.disk.tier import DiskTier
from mlxctl.prefix_cache.index import PrefixIndex
from mlxctl.prefix_cache.packing import Packing, Record
from mlxctl.prefix_cache.records import CacheLayout
from mlxctl.state.installed import version_of

# Time at the engine's end to write cached prefixes to disk.
_FLUSH_SECONDS = 8.0
# Packings of this run whose records are still read where they are exact enough.
_MAX_PACKINGS = 4
# Weight files of at most this size in total are hashed whole; larger ones are identified by size and
# modification time. So a small model that was reinstalled finds its records. Measured: 0.08 s for 64 MiB.
_MAX_DIGESTED_BYTES = 64 * 1024**2
# Changes with the meaning of stored records.
_RECORDS_VERSION = 2


SplitRecord = Callable[[Record, int], tuple[Record, Record]]


class PrefixCaches:
    """Cached prefixes of loaded and unloaded models, under one size limit.

    `index` has those in memory, `disk` those on disk, if there is a disk tier.
    """

    def __init__(
        self,
        *,
        max_bytes: int,
        max_buffers: int,
        disk: DiskTier | None,
        packing: Packing | None,
        split: SplitRecord,
    ) -> None:
        """`max_buffers` bounds the arrays of all records, `packing` quantizes new ones.

        `split` cuts a record in two.
        """
        self.disk = disk
        # The packing in force, then earlier ones.
        self._packings = [packing]
        self.index: PrefixIndex[Record] = PrefixIndex(
            max_bytes=max_bytes,
            max_buffers=max_buffers,
            buffers_of=lambda record: record.num_buffers,
            split=split,
            on_evict=disk.store if disk is not None else None,
        )
        # By namespace of exact records, also of unloaded models: the same weights may be loaded again.
        self._caches: dict[bytes, tuple[PrefixCache, NamespaceOf]] = {}
        self._names: dict[bytes, str] = {}

    @property
    def packing(self) -> Packing | None:
        """The packing of new records; None if they are exact."""
        return self._packings[0]

    def of_model(self, spec: ModelSpec, layout: CacheLayout) -> PrefixCache:
        """Return the prefix cache of a loaded model.

        Equal weights share it. Raises BrokenModel.
        """
        namespace_of = prefix_namespaces(spec)
        key, storage = namespace_of(None), self._storage(namespace_of)
        self._name(storage.namespace, spec.name)
        if key not in self._caches:
            cache = PrefixCache(self.index, storage=storage, layout=layout, disk=self.disk)
            self._caches[key] = cache, namespace_of
        return self._caches[key][0]

    def configure(self, policy: CachePolicy) -> None:
        """Change size, times to live and packing of new records.

        A smaller size evicts at once.
        """
        packing = Packing.of(policy)
        if packing != self.packing:
            earlier = [each for each in self._packings if each != packing]
            self._packings = [packing, *earlier][:_MAX_PACKINGS]
            for cache, namespace_of in self._caches.values():
                name = self._names[cache.storage.namespace]
                cache.storage = self._storage(namespace_of)
                self._name(cache.storage.namespace, name)
        if policy.prefix_cache_bytes is not None:
            self.index.max_bytes = policy.prefix_cache_bytes
        if self.disk is not None:
            self.disk.ttl_seconds = policy.cache_disk_ttl_seconds
        self.index.evict()

    @property
    def model_names(self) -> dict[bytes, str]:
        """The model names of the cached prefixes, by namespace.

        Those on disk may be of earlier runs: of a model that is not loaded, or of other weights of this name.
        """
        return self._names if self.disk is None else self.disk.model_names | self._names

    def hits(self) -> tuple[dict[str, int], int]:
        """Return hits by kind and reused tokens, over all models."""
        hits: dict[str, int] = {}
        for cache, _ in self._caches.values():
            for kind, num in cache.counters.hits.items():
                hits[kind] = hits.get(kind, 0) + num
        return hits, sum(cache.counters.num_tokens_reused for cache, _ in self._caches.values())

    @property
    def num_promotions(self) -> int:
        """Number of prompts whose prefix was read from disk."""
        return sum(cache.counters.num_promotions for cache, _ in self._caches.values())

    def disk_figures(self) -> DiskFigures | None:
        """Return figures of the disk tier; None without one."""
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

    def take_fetched(self) -> list[FetchedRecord]:
        """Take the records that were read from disk since the last call."""
        return self.disk.arrivals() if self.disk is not None else []

    def expire(self) -> None:
        """Drop expired prefixes in memory, and maintain the disk tier."""
        self.index.expire()
        if self.disk is not None:
            self.disk.maintain()

    def close(self) -> None:
        """Write prefixes to disk, most recently used first, for some seconds."""
        if self.disk is None:
            return
        deadline = time.monotonic() + _FLUSH_SECONDS
        leaves = [chunk for chunk in self.index.chunks() if not chunk.children]
        for leaf in reversed(leaves):
            self.disk.store(leaf, deadline=deadline)
        for leaf in leaves:
            self.disk.touch(leaf.key)
        self.disk.close(deadline=deadline)

    def _name(self, namespace: bytes, model: str) -> None:
        self._names[namespace] = model
        if self.disk is not None:
            self.disk.set_model_name(namespace, model)

    def _storage(self, namespace_of: "NamespaceOf") -> StorageFormat:
        packing, *earlier = self._packings
        readable = [each for each in earlier if each is not None and each.is_as_exact_as(packing)]
        return StorageFormat(
            namespace=namespace_of(packing),
            packing=packing,
            # Of records of earlier runs, only the namespace of exact ones is known.
            readable=tuple(map(namespace_of, [*readable, *([None] if packing is not None else [])])),
        )


NamespaceOf = Callable[[Packing | None], bytes]
"""The namespace of a model's records, by their packing."""


def prefix_namespaces(spec: ModelSpec) -> NamespaceOf:
    """Return the digests of everything that keys and values depend on.

    They stay the same when the directory is moved or renamed. The fingerprint covers a sample of every
    tensor, which distinguishes weights of equal sizes and times; sizes and times cover large weights edited
    in place. Packing and quantization of the cache are part of it. Raises BrokenModel.
    """
    home = spec.path.resolve()
    kv_format = spec.task.options.kv_format if isinstance(spec.task, TextGenerationTask) else None
    config = read_json_object(home, "config.json") or {}
    package = text_package(str(config.get("model_type")))
    model = blake2b(b"%d:" % _RECORDS_VERSION + (version_of(package) or "").encode())
    model.update(fingerprint(home).encode())
    _add_weights(model, sorted(home.glob("*.safetensors")))

    def namespace_of(packing: Packing | None) -> bytes:
        digest = model.copy()
        if packing is not None:
            digest.update(packing.label.encode())
        if isinstance(kv_format, KVFormat):
            digest.update(f"keys and values in {kv_format.bits} bits by {kv_format.group_size}".encode())
        elif kv_format is not None:
            digest.update(f"keys and values by layer {kv_format}".encode())
        return digest.digest()

    return namespace_of


def _add_weights(digest: "blake2b", files: list[Path]) -> None:
    statuses = [file.stat() for file in files]
    is_small = sum(status.st_size for status in statuses) <= _MAX_DIGESTED_BYTES
    for file, status in zip(files, statuses, strict=True):
        if is_small:
            with file.open("rb") as stream:
                digest.update(file.name.encode() + file_digest(stream, blake2b).digest())
        else:
            digest.update(f"{file.name}:{status.st_size}:{status.st_mtime_ns}".encode())
