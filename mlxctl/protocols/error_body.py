"""Error responses, independent of protocol and HTTP framework."""

import math
from dataclasses import dataclass, field

from mlxctl.ir.errors import (
    AuthenticationFailed,
    CapacityError,
    EncodedBody,
    EngineError,
    InsufficientScope,
    InvalidToken,
    KeyRevoked,
    MethodNotAllowed,
    MlxctlError,
    ModelUnavailable,
    RequestError,
    StoreUnavailable,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorBody:
    """HTTP status, JSON body and headers of an error."""

    status: int
    body: bytes
    media_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)


def error_headers(error: MlxctlError) -> dict[str, str]:
    """Return the headers of an error: Retry-After, WWW-Authenticate, Allow, Accept-Encoding."""
    match error:
        case CapacityError():
            return {"Retry-After": str(max(1, math.ceil(error.retry_after_seconds)))}
        case InvalidToken():
            problem = f'error="invalid_token", error_description="{error.reason}"'
            return {"WWW-Authenticate": f'Bearer realm="mlxctl", {problem}'}
        case AuthenticationFailed() | KeyRevoked():
            return {"WWW-Authenticate": 'Bearer realm="mlxctl"'}
        case InsufficientScope():
            scope = f'error="insufficient_scope", scope="{error.scope}"'
            return {"WWW-Authenticate": f'Bearer realm="mlxctl", {scope}'}
        case MethodNotAllowed():
            return {"Allow": ", ".join(error.allowed)}
        case EncodedBody():
            return {"Accept-Encoding": "identity"}
        case ModelUnavailable():
            # The SDKs retry every 500 unless this header says not to.
            return {"x-should-retry": "false"}
        case _:
            return {}


def error_message(error: MlxctlError) -> str:
    """Return the message for the caller.

    Paths and settings of the operator stay internal.
    """
    if isinstance(error, (RequestError, CapacityError, EngineError)):
        return str(error)
    if isinstance(error, StoreUnavailable):
        return f"the store of {error.store} cannot be used now; the server's log says why"
    return "the server could not answer this request; its log says why"
