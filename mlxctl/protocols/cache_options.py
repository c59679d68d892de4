"""Cache fields of request bodies: `cache_mode`, `ttl`, `session_id`, `cache_salt`, `cache_control`.

- `cache_mode`: `full` (default) reuses cached tokens and stores prompt and answer; `prefix` stores only the
  prompt, for answers that never come back; `off` neither reuses nor stores.
- `ttl`: seconds that the request's tokens stay stored, unless another request stores them for longer; without
  it, until they are evicted. 0 stores nothing.
- `session_id` names the conversation in cache listings and explanations.
- `cache_salt` (vLLM's name): only requests of the same caller with the same salt reuse the tokens.

A `cache_control` of `{"type": "ephemeral", "ttl": "5m"}` (or `"1h"`) sets the time to live of the prompt up
to its position; the last one also that of the rest. One without `ttl` changes nothing.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from mlxctl.ir import CacheMode, CacheOptions
from mlxctl.protocols.structured_output import StructuredOutputFields

_MAX_TTL_SECONDS = 365 * 24 * 3600
SECONDS = {"5m": 300.0, "1h": 3600.0}

TtlSeconds = Annotated[float, Meta(ge=0, le=_MAX_TTL_SECONDS)]
SessionId = Annotated[str, Meta(min_length=1, max_length=256)]
CacheSalt = Annotated[str, Meta(min_length=1, max_length=256)]


class CacheControl(Struct):
    """Cache breakpoint of Anthropic's Messages API."""

    type: Literal["ephemeral"] = "ephemeral"
    ttl: Literal["5m", "1h"] | None = None


class CacheFields(StructuredOutputFields, kw_only=True):
    """Base of OpenAI bodies with cache fields; null means not set."""

    session_id: SessionId | None = None
    cache_mode: CacheMode | None = None
    cache_salt: CacheSalt | None = None
    ttl: TtlSeconds | None = None


def cache_options(fields: CacheFields) -> CacheOptions:
    """Return the cache options of a body."""
    return CacheOptions(
        mode=fields.cache_mode or "full",
        ttl_seconds=fields.ttl,
        salt=fields.cache_salt or "",
        session_id=fields.session_id,
    )
