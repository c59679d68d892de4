"""The caller of a request: its share, priority, headers and cache namespace."""

from dataclasses import replace

from falcon.asgi import Request

from mlxctl.inference.preparation import PackedRequest
from mlxctl.ir.allowed_models import AllowedModels
from mlxctl.protocols import (
    OVERFLOW_HEADER,
    PRIORITY_HEADER,
    header_context_overflow,
    header_priority,
)
from mlxctl.server.policy import Caller, cache_namespace


def allowed_models(request: Request) -> AllowedModels:
    """Return the models that the caller may use."""
    identity: Caller = request.context.identity
    return identity.models


def fairness_key(request: Request) -> str:
    """Return what has a share of its own: API key, else connection.

    It is a share of rows, queue and bodies. An address would not do: all programs of one machine have it.
    """
    identity: Caller = request.context.identity
    host, port = request.scope.get("client") or ("", 0)
    return identity.name or f"{host}:{port}"


def with_caller(packed: PackedRequest, request: Request) -> PackedRequest:
    """Return the request with its caller's fairness key and cache namespace.

    Priority and context overflow of the body take precedence over those of headers; the caller's key limits
    how urgent the priority may be. Raises InvalidRequest.
    """
    options = packed.head.cache
    identity: Caller = request.context.identity
    of_header = header_priority(request.get_header(PRIORITY_HEADER))
    priority = of_header if packed.head.priority is None else packed.head.priority
    overflow = header_context_overflow(request.get_header(OVERFLOW_HEADER))
    namespace = cache_namespace(identity.cache_scope, options.salt)
    return packed.with_head(
        request_id=request.context.request_id,
        caller=request.context.caller,
        fairness_key=fairness_key(request),
        priority=priority if identity.priority is None else max(priority or 0, identity.priority),
        context_overflow=packed.head.context_overflow or overflow,
        cache=replace(options, namespace=namespace),
    )
