"""The caller of a request: queue share, priority and cache namespace."""

from dataclasses import replace

from falcon.asgi import Request

from mlxctl.inference.preparation import PackedRequest
from mlxctl.policy import cache_namespace
from mlxctl.protocols import PRIORITY_HEADER, header_priority


def with_caller(asked: PackedRequest, request: Request) -> PackedRequest:
    """Return the request with its caller's fairness key and cache namespace.

    The priority of the body takes precedence over that of the header. Raises InvalidRequest.
    """
    options = asked.head.cache
    of_header = header_priority(request.get_header(PRIORITY_HEADER))
    namespace = cache_namespace(request.context.cache_scope, options.salt)
    return asked.with_head(
        request_id=request.context.request_id,
        fairness_key=request.context.caller,
        priority=of_header if asked.head.priority is None else asked.head.priority,
        cache=replace(options, namespace=namespace),
    )
