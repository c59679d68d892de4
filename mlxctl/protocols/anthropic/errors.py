"""Errors in Anthropic's shape: `{"type": "error", "error": {"type", "message"}, "request_id"}`."""

from typing import Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from mlxctl.ir import errors
from mlxctl.ir.errors import MlxctlError
from mlxctl.protocols.error_body import ErrorBody, error_headers, error_message

# (HTTP status, type) of the nearest ancestor. 529 is Anthropic's status for overload.
_ANSWERS: dict[type[MlxctlError], tuple[int, str]] = {
    errors.RequestError: (400, "invalid_request_error"),
    errors.UnknownModel: (404, "not_found_error"),
    errors.UnknownResource: (404, "not_found_error"),
    errors.Conflict: (409, "invalid_request_error"),
    errors.MethodNotAllowed: (405, "invalid_request_error"),
    errors.BodyTooLarge: (413, "request_too_large"),
    errors.EncodedBody: (415, "invalid_request_error"),
    errors.BodyTooSlow: (408, "timeout_error"),
    errors.HeadersTooLarge: (431, "invalid_request_error"),
    errors.PermissionDenied: (403, "permission_error"),
    errors.AuthenticationFailed: (401, "authentication_error"),
    errors.CapacityError: (529, "overloaded_error"),
    errors.QueueFull: (429, "rate_limit_error"),
    errors.RateLimited: (429, "rate_limit_error"),
    errors.PolicyUnavailable: (503, "api_error"),
    errors.EngineRecovering: (503, "overloaded_error"),
    errors.ModelLoading: (503, "overloaded_error"),
    errors.ShuttingDown: (503, "overloaded_error"),
    errors.StoreUnavailable: (503, "api_error"),
    errors.RemoteFailed: (502, "api_error"),
    errors.LoopDetected: (508, "invalid_request_error"),
    errors.RequestCancelled: (499, "api_error"),
    errors.KeyRevoked: (401, "authentication_error"),
    errors.ClientTooSlow: (408, "timeout_error"),
    errors.DeadlineExceeded: (504, "timeout_error"),
    errors.MlxctlError: (500, "api_error"),
}


# After the first two the SDKs send the whole conversation.
_CODES = ("thread_not_found", "thread_unsupported_request", "thread_fingerprint_mismatch")


class AnthropicErrorCode(Struct):
    """The kind of error, for clients that handle it."""

    error_code: str


class AnthropicErrorDetail(Struct):
    """Type and message of an error."""

    type: str
    message: str
    details: AnthropicErrorCode | UnsetType = UNSET


class AnthropicError(Struct):
    """An error body, and the last event of a stream that failed."""

    type: Literal["error"]
    error: AnthropicErrorDetail
    request_id: str | None


def anthropic_error(error: MlxctlError, *, request_id: str | None = None) -> ErrorBody:
    """Return the error response."""
    status, _ = _answer(error)
    return ErrorBody(
        status=status, body=error_json(error, request_id=request_id), headers=error_headers(error)
    )


def error_json(error: MlxctlError, *, request_id: str | None = None) -> bytes:
    """Return the error object, for a body or an event."""
    _, kind = _answer(error)
    code = getattr(error, "code", None)
    detail = AnthropicErrorDetail(
        type=kind,
        message=error_message(error),
        details=AnthropicErrorCode(code) if code in _CODES else UNSET,
    )
    return msgspec.json.encode(AnthropicError(type="error", error=detail, request_id=request_id))


def _answer(error: MlxctlError) -> tuple[int, str]:
    return next(_ANSWERS[ancestor] for ancestor in type(error).__mro__ if ancestor in _ANSWERS)
