"""Errors in llama.cpp's shape: `{"error": {"code", "message", "type"}}`.

`code` is the HTTP status.
"""

import msgspec
from msgspec import UNSET, Struct, UnsetType

from mlxctl.ir.errors import ContextTooLong, MlxctlError
from mlxctl.protocols.error_body import ErrorBody, error_headers, error_message
from mlxctl.protocols.openai.errors import error_status

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    503: "unavailable_error",
    504: "timeout_error",
}


class LlamaErrorDetail(Struct):
    """Code and message of an error.

    The numbers of tokens are there for a prompt that is too long.
    """

    code: int
    message: str
    type: str
    n_prompt_tokens: int | UnsetType = UNSET
    n_ctx: int | UnsetType = UNSET


class LlamaError(Struct):
    """Body of an error answer, and last event of a failed stream."""

    error: LlamaErrorDetail


def llama_error(error: MlxctlError, *, request_id: str | None = None) -> ErrorBody:  # noqa: ARG001 -- only in a header
    """Return the error response, with OpenAI's status."""
    status = error_status(error)
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    detail = LlamaErrorDetail(code=status, message=error_message(error), type=kind)
    if isinstance(error, ContextTooLong):
        detail.type = "exceed_context_size_error"
        detail.n_prompt_tokens, detail.n_ctx = error.num_prompt_tokens, error.context_length
    return ErrorBody(
        status=status, body=msgspec.json.encode(LlamaError(detail)), headers=error_headers(error)
    )
