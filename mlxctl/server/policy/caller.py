"""The caller of an HTTP request, and the options of its headers."""

from falcon.asgi import Request

from mlxctl.inference.call_context import CallContext
from mlxctl.inference.preparation import PackedRequest
from mlxctl.ir.allowed_models import AllowedModels
from mlxctl.ir.policy import Caller
from mlxctl.protocols import (
    OVERFLOW_HEADER,
    PRIORITY_HEADER,
    header_context_overflow,
    header_priority,
)


def call_of(request: Request) -> CallContext:
    """Return the caller of a request, with its rights."""
    call: CallContext = request.context.call
    return call


def allowed_models(request: Request) -> AllowedModels:
    """Return the models that the caller may use."""
    return call_of(request).models


def fairness_key(request: Request, caller: Caller) -> str:
    """Return what has a share of its own: API key, else connection.

    It is a share of rows, queue and bodies. An address would not do: all programs of one machine have it.
    """
    host, port = request.scope.get("client") or ("", 0)
    return caller.name or f"{host}:{port}"


def with_header_options(packed: PackedRequest, request: Request) -> PackedRequest:
    """Return the request with priority and context overflow of its headers.

    Those of the body take precedence. Raises InvalidRequest.
    """
    priority = header_priority(request.get_header(PRIORITY_HEADER))
    overflow = header_context_overflow(request.get_header(OVERFLOW_HEADER))
    return packed.with_head(
        priority=priority if packed.head.priority is None else packed.head.priority,
        context_overflow=packed.head.context_overflow or overflow,
    )
