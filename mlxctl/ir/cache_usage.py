"""Tokens of a prompt that the prefix cache had and stored.

Pure value.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheUsage:
    """Prefix cache figures of one prompt, in tokens from its start.

    `num_matched_tokens` are cached; `num_cached_tokens` of them were reused without computing them, fewer
    where no recurrent state was stored. `num_stored_tokens` are new to the cache and will be stored there.
    `hit` is the kind of hit, None without a look-up. `eviction_reason` is why the tokens after the matched
    ones were removed, if they were cached before.
    """

    num_matched_tokens: int = 0
    num_cached_tokens: int = 0
    num_stored_tokens: int = 0
    eviction_reason: str | None = None
    hit: str | None = None


NO_CACHE_USAGE = CacheUsage()
