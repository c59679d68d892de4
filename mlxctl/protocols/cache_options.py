"""How a request says what the prefix cache is to do for it: our own fields beside OpenAI's, and Anthropic's
cache_control.

`cache_mode`: `full` (the default) takes over what is known of the prompt and keeps prompt and answer;
`prefix` keeps the prompt only, for answers that are never sent back; `off` takes over nothing and keeps
nothing. `ttl` is in seconds: what the request used and left is kept for so long after it, unless another
request keeps it for longer; without one it is kept as long as there is room. `session_id` names the
conversation, for people who look into the cache. `cache_salt`, named as vLLM does, separates: what a request
left is taken over only by requests of the same caller with the same salt.

A `cache_control` of `{"type": "ephemeral", "ttl": "5m"}` (or `"1h"`) says it for the prompt up to where it
stands, and the last one for what comes after it, too. One without a `ttl` changes nothing, since a cache of
one's own need not forget after five minutes.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from mlxctl.ir import CacheMode, CacheOptions

_MAX_TTL_SECONDS = 365 * 24 * 3600
SECONDS = {"5m": 300.0, "1h": 3600.0}

TtlSeconds = Annotated[float, Meta(gt=0, le=_MAX_TTL_SECONDS)]
SessionId = Annotated[str, Meta(min_length=1, max_length=256)]
CacheSalt = Annotated[str, Meta(min_length=1, max_length=256)]


class CacheControl(Struct):
    """A mark that everything up to here is worth keeping."""

    type: Literal["ephemeral"] = "ephemeral"
    ttl: Literal["5m", "1h"] | None = None


def cache_options(mode: CacheMode | None, ttl_seconds: float | None, salt: str | None) -> CacheOptions:
    """Return what `cache_mode`, `ttl` and `cache_salt` mean."""
    return CacheOptions(mode=mode or "full", ttl_seconds=ttl_seconds, salt=salt or "")
