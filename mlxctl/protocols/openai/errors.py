"""Errors in OpenAI's shape.

`{"error": {"message", "type", "param", "code"}}`, all four keys present.
"""

import msgspec
from msgspec import UNSET, Struct, UnsetType

from mlxctl.ir import errors
from mlxctl.ir.errors import (
    Conflict,
    ContextOverBudget,
    ContextTooLong,
    InvalidRequest,
    MlxctlError,
    ModelUnavailable,
    UnknownModel,
)
from mlxctl.protocols.error_body import ErrorBody, error_headers, error_message

# (HTTP status, type, code) of the nearest ancestor.
_ANSWERS: dict[type[MlxctlError], tuple[int, str, str | None]] = {
    errors.RequestError: (400, "invalid_request_error", None),
    errors.ContextTooLong: (400, "invalid_request_error", "context_length_exceeded"),
    errors.PracticalContextExceeded: (400, "memory_admission", "context_over_budget"),
    errors.ContextOverBudget: (400, "memory_admission", "context_over_budget"),
    errors.UnknownModel: (404, "invalid_request_error", "model_not_found"),
    errors.UnknownResource: (404, "invalid_request_error", "not_found"),
    errors.Conflict: (409, "invalid_request_error", "conflict"),
    errors.MethodNotAllowed: (405, "invalid_request_error", "method_not_allowed"),
    errors.BodyTooLarge: (413, "invalid_request_error", "request_too_large"),
    errors.EncodedBody: (415, "invalid_request_error", "unsupported_content_encoding"),
    errors.BodyTooSlow: (408, "timeout_error", "request_timeout"),
    errors.HeadersTooLarge: (431, "invalid_request_error", "headers_too_large"),
    errors.PermissionDenied: (403, "permission_error", "admin_key_required"),
    errors.InsufficientScope: (403, "permission_error", "insufficient_scope"),
    errors.FeatureDisabled: (403, "permission_error", "feature_disabled"),
    errors.PolicyDenied: (403, "permission_error", "policy_denied"),
    errors.GuardrailMatched: (400, "invalid_request_error", "content_filter"),
    errors.AuthenticationFailed: (401, "authentication_error", "invalid_api_key"),
    errors.InvalidToken: (401, "authentication_error", "invalid_token"),
    errors.CapacityError: (503, "server_error", "server_overloaded"),
    errors.QueueFull: (429, "rate_limit_error", "rate_limit_exceeded"),
    errors.RateLimited: (429, "rate_limit_error", "rate_limit_exceeded"),
    errors.PolicyUnavailable: (503, "server_error", "policy_unavailable"),
    errors.MemoryShortage: (503, "server_error", "memory_exhausted"),
    errors.EngineRecovering: (503, "server_error", "engine_recovering"),
    errors.ModelLoading: (503, "server_error", "model_loading"),
    errors.ShuttingDown: (503, "server_error", "shutting_down"),
    errors.ModelInUse: (503, "server_error", "model_in_use"),
    errors.StoreUnavailable: (503, "server_error", "store_unavailable"),
    errors.RemoteFailed: (502, "server_error", "remote_failed"),
    errors.LoopDetected: (508, "invalid_request_error", "loop_detected"),
    errors.ModelUnavailable: (500, "server_error", "model_unavailable"),
    # 499: the SDKs repeat a request after every status from 500 on.
    errors.RequestCancelled: (499, "request_cancelled", "request_cancelled"),
    errors.KeyRevoked: (401, "authentication_error", "invalid_api_key"),
    errors.ClientTooSlow: (408, "timeout_error", "client_too_slow"),
    errors.DeadlineExceeded: (504, "timeout_error", "deadline_exceeded"),
    errors.MlxctlError: (500, "server_error", "internal_error"),
}


class OpenAIErrorDetail(Struct):
    """What went wrong; `param` names the field."""

    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIError(Struct):
    """Body of an error answer.

    `detail` is the message once more, where Voyage's clients read it: on the routes that they share.
    """

    error: OpenAIErrorDetail
    detail: str | UnsetType = UNSET


def openai_error(
    error: MlxctlError,
    *,
    prompt_field: str = "messages",
    has_detail: bool = False,
    request_id: str | None = None,  # noqa: ARG001 -- only in a header
) -> ErrorBody:
    """Return the error response; `prompt_field` is the route's name of the prompt."""
    detail = error_detail(error, prompt_field=prompt_field)
    body = msgspec.json.encode(OpenAIError(detail, detail.message if has_detail else UNSET))
    return ErrorBody(status=error_status(error), body=body, headers=error_headers(error))


def error_json(error: MlxctlError, *, prompt_field: str = "messages") -> bytes:
    """Return the error object, for a body or an event."""
    return msgspec.json.encode(OpenAIError(error_detail(error, prompt_field=prompt_field)))


def error_detail(error: MlxctlError, *, prompt_field: str = "messages") -> OpenAIErrorDetail:
    """Return message, type, field and code of an error."""
    _, kind, code = _answer(error)
    param = _param(error, prompt_field)
    return OpenAIErrorDetail(message=error_message(error), type=kind, param=param, code=code)


def error_status(error: MlxctlError) -> int:
    """Return the HTTP status of an error."""
    return _answer(error)[0]


def error_code(error: MlxctlError) -> str:
    """Return the code of an error, else its type."""
    _, kind, code = _answer(error)
    return code or kind


def _answer(error: MlxctlError) -> tuple[int, str, str | None]:
    status, kind, code = next(_ANSWERS[ancestor] for ancestor in type(error).__mro__ if ancestor in _ANSWERS)
    if isinstance(error, InvalidRequest):
        code = error.code
    return status, kind, code


def _param(error: MlxctlError, prompt_field: str) -> str | None:
    match error:
        case InvalidRequest() | Conflict():
            return error.param
        case ContextTooLong() | ContextOverBudget():
            return prompt_field
        case UnknownModel() | ModelUnavailable():
            return "model"
        case _:
            return None
