"""Cache policy: what an operator may change while the server runs."""

from typing import Literal

import msgspec

PrefixCacheBits = Literal["full", "8", "4"]
PrefixCacheGroupSize = Literal["32", "64", "128"]


class CachePolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Size and quantization of the prefix cache, and times to live.

    The fields are those of `EngineSettings`, whose bounds they have. `prefix_cache_bytes` None is the
    engine's default.
    """

    prefix_cache_bytes: int | None = None
    prefix_cache_bits: PrefixCacheBits = "full"
    prefix_cache_group_size: PrefixCacheGroupSize = "64"
    prefix_cache_exact_tokens: int = 4096
    cache_ttl_seconds: float | None = None
    cache_disk_ttl_seconds: float = 86400.0
