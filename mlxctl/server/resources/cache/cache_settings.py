"""GET and PATCH /admin/cache: live settings of the prefix cache."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from mlxctl.inference import InferenceService
from mlxctl.ir.cache_policy import PrefixCacheBits, PrefixCacheGroupSize
from mlxctl.ir.errors import InvalidRequest
from mlxctl.server.resources.operation.live_settings import LiveSettingsResource

_CHOICES = ("prefix_cache_bits", "prefix_cache_group_size")


class CacheSettingsState(Struct, kw_only=True):
    """The settings in force, until the restart of the server.

    `prefix_cache_bytes` is null until the engine has started, if the settings leave it to the engine.
    """

    prefix_cache_bytes: int | None
    prefix_cache_bits: PrefixCacheBits
    prefix_cache_group_size: PrefixCacheGroupSize
    prefix_cache_exact_tokens: int
    cache_ttl_seconds: float | None
    cache_disk_ttl_seconds: float


class CacheSettingsChange(Struct, kw_only=True, forbid_unknown_fields=True):
    """Settings to change; the others stay.

    A smaller `prefix_cache_bytes` evicts entries at once. Times to live hold for entries that are stored or
    used from then on. `prefix_cache_bits`, `prefix_cache_group_size` and `prefix_cache_exact_tokens` hold for
    requests from then on; earlier entries are used as they are where they are at least as exact.
    """

    prefix_cache_bytes: Annotated[int, Meta(ge=1)] | UnsetType = UNSET
    prefix_cache_bits: PrefixCacheBits | Literal[8, 4] | UnsetType = UNSET
    prefix_cache_group_size: PrefixCacheGroupSize | Literal[32, 64, 128] | UnsetType = UNSET
    prefix_cache_exact_tokens: Annotated[int, Meta(ge=0)] | UnsetType = UNSET
    cache_ttl_seconds: Annotated[float, Meta(ge=0)] | UnsetType | None = UNSET
    cache_disk_ttl_seconds: Annotated[float, Meta(ge=0)] | UnsetType = UNSET


class CacheSettingsResource(LiveSettingsResource):
    """GET and PATCH /admin/cache."""

    def __init__(self, inference: InferenceService) -> None:
        super().__init__(inference, CacheSettingsChange)

    def state(self) -> CacheSettingsState:
        cache = self._inference.cache
        policy = msgspec.structs.replace(cache.policy, prefix_cache_bytes=cache.max_bytes)
        return CacheSettingsState(**msgspec.structs.asdict(policy))

    def change(self, values: dict[str, Any]) -> None:
        """Change settings of the prefix cache.

        Raises InvalidRequest for a prefix cache larger than the memory limit.
        """
        engine, num_bytes = self._inference.engine, values.get("prefix_cache_bytes", 0)
        if engine is not None and num_bytes > engine.memory_limit_bytes:
            raise InvalidRequest(
                f"prefix_cache_bytes is {num_bytes}, more than the memory limit of "
                f"{engine.memory_limit_bytes} bytes",
                param="prefix_cache_bytes",
            )
        cache = self._inference.cache
        # Numbers are accepted where the settings have names, so that a command line needs no quotes.
        chosen = {name: str(values[name]) for name in _CHOICES if name in values}
        cache.configure(msgspec.structs.replace(cache.policy, **{**values, **chosen}))
