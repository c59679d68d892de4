"""A model on the device, with what was measured of it. MLX thread only."""

from dataclasses import dataclass
from typing import Any

from mlxctl.engine.wire.messages import CacheKind
from mlxctl.ir import KVFormat


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedWeights:
    """A model on the device and what was measured about it. `model` must stay on the MLX thread.

    `kv_format` is how its caches are quantized. `width` is that of its states, for a model without a head.
    `model` is a VisionLanguageModel if `sees`; `vision_problem` is why it does not, where it should.
    """

    model: Any
    vocabulary_size: int
    weights_bytes: int
    kv_bytes_per_token: int
    cache_kind: CacheKind
    can_batch: bool
    load_seconds: float
    kv_format: KVFormat | None = None
    width: int | None = None
    sees: bool = False
    vision_problem: str | None = None
