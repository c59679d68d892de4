"""The models in the engine and the memory that they share. MLX thread only."""

from pathlib import Path

import mlx.core as mx

from mlxctl.engine.loading import LoadedWeights, load_weights
from mlxctl.engine.runner import ModelRunner

# Freed buffers that MLX may keep for reuse: enough for a step's scratch, never a second model.
_BUFFER_CACHE_SHARE = 0.05
_MIN_BUFFER_CACHE_BYTES = 64 * 1024 * 1024
_MAX_BUFFER_CACHE_BYTES = 2 * 1024 * 1024 * 1024


class ModelPool:
    """Loaded models by name. Keeps `limit_bytes` for weights and caches together and says what is left of it."""

    def __init__(self, *, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
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
        self._runners[name] = ModelRunner(weights)
        self._weights_bytes += weights.weights_bytes
        return weights

    def runner(self, name: str) -> ModelRunner:
        """Return the runner of a loaded model."""
        return self._runners[name]

    @property
    def cache_capacity_bytes(self) -> int:
        """What caches could take if nothing else ran."""
        return self.limit_bytes - self._weights_bytes

    @property
    def available_bytes(self) -> int:
        """What may still be allocated."""
        return self.limit_bytes - int(mx.get_active_memory())

    def trim(self) -> None:
        """Give freed buffers back to the system."""
        mx.clear_cache()
