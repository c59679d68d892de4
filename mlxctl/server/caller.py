"""The caller of a request: its share of the queue and its cache namespace."""

from dataclasses import replace

from falcon.asgi import Request

from mlxctl.inference.preparation import PackedRequest
from mlxctl.policy import cache_namespace


def with_caller(asked: PackedRequest, request: Request) -> PackedRequest:
    """Return the request with its caller's fairness key and cache namespace."""
    options = asked.head.cache
    namespace = cache_namespace(request.context.cache_scope, options.salt)
    return asked.with_head(
        request_id=request.context.request_id,
        fairness_key=request.context.caller,
        cache=replace(options, namespace=namespace),
    )
