"""Cache policy: what an operator may change while the server runs."""

import msgspec


class CachePolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Size of the prefix cache, and times to live.

    The fields are those of `EngineSettings`, whose bounds they have. `prefix_cache_bytes` None is the
    engine's default.
    """

    prefix_cache_bytes: int | None = None
    cache_ttl_seconds: float | None = None
    cache_disk_ttl_seconds: float = 86400.0
