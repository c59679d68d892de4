"""Routes of the prefix cache: chunks, changes and explanations."""

from typing import Any

from mlxctl.engine import CacheAction
from mlxctl.server.http.route import GENERATION_ERRORS, Operation, Query, Route
from mlxctl.server.resources.cache.cache import (
    MAX_EXPLAINED,
    MAX_PAGE_CHUNKS,
    CacheChangeResource,
    CacheExplanationResource,
    CacheKeys,
    CacheQuestion,
    CacheResource,
)
from mlxctl.server.resources.cache.cache_answers import CacheChanged, ChunkPage, Explanations

_OFFSET = Query(name="offset", schema={"type": "integer", "minimum": 0})
_CHUNKS = Query(name="limit", schema={"type": "integer", "minimum": 1, "maximum": MAX_PAGE_CHUNKS})
_TOKENS = Query(name="tokens", schema={"type": "boolean"})
_LAST = Query(name="last", schema={"type": "integer", "minimum": 1, "maximum": MAX_EXPLAINED})


def _change(action: CacheAction, summary: str, body: type[Any] | None) -> Route:
    operation = Operation(method="post", summary=summary, body=body, answer=CacheChanged, errors=(500, 503))
    return Route(
        path=f"/cache/{action}",
        resource=lambda context: CacheChangeResource(context.services.inference.cache, action),
        access="cache:write",
        covers_all_callers=True,
        operations=(operation,),
    )


ROUTES = (
    Route(
        path="/cache",
        resource=lambda context: CacheResource(context.services.inference.cache),
        access="cache:read",
        covers_all_callers=True,
        operations=(
            Operation(
                method="get",
                summary="List the chunks of the prefix cache, in pages",
                answer=ChunkPage,
                query=(_OFFSET, _CHUNKS, _TOKENS),
                errors=(500, 503),
            ),
        ),
    ),
    _change("pin", "Pin prefixes: protect them from eviction", CacheKeys),
    _change("unpin", "Unpin prefixes", CacheKeys),
    _change("drop", "Delete prefixes and everything that extends them", CacheKeys),
    _change("clear", "Delete every prefix that is neither in use nor pinned", None),
    _change("gc", "Delete expired prefixes", None),
    Route(
        path="/cache/explain",
        resource=lambda context: CacheExplanationResource(context.services.inference, context.settings),
        access="cache:read",
        covers_all_callers=True,
        operations=(
            Operation(
                method="get",
                summary="Explain the cache hits and misses of recent requests",
                answer=Explanations,
                query=(_LAST,),
                errors=(500, 503),
            ),
            Operation(
                method="post",
                summary="Explain how much of a request would hit the cache",
                body=CacheQuestion,
                answer=Explanations,
                errors=GENERATION_ERRORS,
            ),
        ),
    ),
)
