"""An error as it goes over the wire, whatever the protocol: status, JSON body, headers.

Knows no HTTP framework.
"""

import math
from dataclasses import dataclass, field

from mlxctl.errors import (
    AuthenticationFailed,
    CapacityError,
    EngineError,
    MethodNotAllowed,
    MlxctlError,
    ModelUnavailable,
    RequestError,
    StoreUnavailable,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorBody:
    """What to answer: the HTTP status, the JSON body, and the headers that belong to this error."""

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)


def error_headers(error: MlxctlError) -> dict[str, str]:
    """Return the headers that HTTP wants beside this error: when to retry, how to authenticate, what is
    allowed.
    """
    match error:
        case CapacityError():
            return {"Retry-After": str(max(1, math.ceil(error.retry_after_seconds)))}
        case AuthenticationFailed():
            return {"WWW-Authenticate": 'Bearer realm="mlxctl"'}
        case MethodNotAllowed():
            return {"Allow": ", ".join(error.allowed)}
        case ModelUnavailable():
            # The SDKs try every 500 again and again unless they are told that it is of no use.
            return {"x-should-retry": "false"}
        case _:
            return {}


def error_message(error: MlxctlError) -> str:
    """Return the sentence for the caller; errors that concern only the machine's owner (paths, settings) stay
    inside.
    """
    if isinstance(error, (RequestError, CapacityError, EngineError)):
        return str(error)
    if isinstance(error, StoreUnavailable):
        return f"the store of {error.store} cannot be used now; the server's log says why"
    return "the server could not answer this request; its log says why"
