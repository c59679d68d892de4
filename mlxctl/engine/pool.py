"""The models in the engine and the memory that they share. MLX thread only."""

import importlib.metadata
from hashlib import blake2b
from pathlib import Path

import mlx.core as mx

from mlxctl.engine.caches import new_caches
from mlxctl.engine.loading import LoadedWeights, load_weights
from mlxctl.engine.runner import ModelRunner
from mlxctl.prefix_cache.cache import PrefixCache, Record
from mlxctl.prefix_cache.index import PrefixIndex
from mlxctl.prefix_cache.records import CacheLayout

# Freed buffers that MLX may keep for reuse: enough for a step's scratch, never a second model.
_BUFFER_CACHE_SHARE = 0.05
# What the prefix cache may keep when nobody says otherwise.
_PREFIX_CACHE_SHARE = 0.2
_MIN_BUFFER_CACHE_BYTES = 64 * 1024 * 1024
_MAX_BUFFER_CACHE_BYTES = 2 * 1024 * 1024 * 1024


class ModelPool:
    """Loaded models by name. Keeps `limit_bytes` for weights and caches together and says what is left of it."""

    def __init__(self, *, limit_bytes: int, prefix_cache_bytes: int | None) -> None:
        self.limit_bytes = limit_bytes
        budget = int(limit_bytes * _PREFIX_CACHE_SHARE) if prefix_cache_bytes is None else prefix_cache_bytes
        self.prefixes: PrefixIndex[Record] = PrefixIndex(max_bytes=budget)
        self._caches: dict[str, PrefixCache] = {}
        self._runners: dict[str, ModelRunner] = {}
        self._weights_bytes = 0
        bounded = min(max(int(limit_bytes * _BUFFER_CACHE_SHARE), _MIN_BUFFER_CACHE_BYTES), _MAX_BUFFER_CACHE_BYTES)
        mx.set_cache_limit(bounded)

    def load(self, name: str, path: Path, *, weights_bytes: int, trust_remote_code: bool) -> LoadedWeights:
        """Load a model and make its runner. Raises ModelNotFoundOnDisk, BrokenModel, NotEnoughMemory."""
        weights = load_weights(
            path,
            weights_bytes=weights_bytes,
            available_bytes=self.available_bytes,
            limit_bytes=self.limit_bytes,
            trust_remote_code=trust_remote_code,
        )
        layout = CacheLayout(new_caches(weights.model))
        cache = PrefixCache(self.prefixes, namespace=_namespace(path), layout=layout)
        self._caches[name] = cache
        self._runners[name] = ModelRunner(weights, cache)
        self._weights_bytes += weights.weights_bytes
        return weights

    def runner(self, name: str) -> ModelRunner:
        """Return the runner of a loaded model."""
        return self._runners[name]

    def cache_hits(self) -> tuple[dict[str, int], int]:
        """Return how often prompts were known, by kind, and how many tokens that saved, over all models."""
        hits: dict[str, int] = {}
        for cache in self._caches.values():
            for kind, num in cache.counters.hits.items():
                hits[kind] = hits.get(kind, 0) + num
        return hits, sum(cache.counters.num_tokens_reused for cache in self._caches.values())

    @property
    def cache_capacity_bytes(self) -> int:
        """What caches could take if nothing else ran."""
        return self.limit_bytes - self._weights_bytes

    @property
    def available_bytes(self) -> int:
        """What may still be allocated, given that the prefix cache makes room when it has to."""
        return self.limit_bytes - int(mx.get_active_memory()) + self.prefixes.num_bytes

    def make_room(self) -> None:
        """Shrink the prefix cache as far as memory beyond the limit is in use."""
        excess = int(mx.get_active_memory()) - self.limit_bytes
        if excess > 0:
            self.prefixes.shrink(max(0, self.prefixes.num_bytes - excess))

    def trim(self) -> None:
        """Forget prefixes that have expired, and give freed buffers back to the system."""
        self.prefixes.expire()
        mx.clear_cache()


def _namespace(path: Path) -> bytes:
    """Return what tells these weights from any others: a re-quantised or replaced model must never read stale keys and values."""
    digest = blake2b(b"1:" + importlib.metadata.version("mlx-lm").encode())
    home = path.resolve()
    for file in (*sorted(home.glob("*.safetensors")), home / "config.json", home / "tokenizer.json"):
        if file.exists():
            status = file.stat()
            digest.update(f"{file}:{status.st_size}:{status.st_mtime_ns}".encode())
    return digest.digest()
