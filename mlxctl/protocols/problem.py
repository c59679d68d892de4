"""Errors of mlxctl's own routes: problem details (RFC 9457)."""

from http import HTTPStatus

import msgspec
from msgspec import Struct

from mlxctl.ir.errors import MlxctlError
from mlxctl.protocols.error_body import ErrorBody, error_headers
from mlxctl.protocols.openai.errors import OpenAIErrorDetail, error_detail, error_status

PROBLEM_MEDIA_TYPE = "application/problem+json"
_OTHER_TITLES = {499: "Request Cancelled"}


class Problem(Struct, kw_only=True):
    """Body of an error answer.

    `instance` is the request id. `code` and `param` are those of `error`, which repeats the problem in
    OpenAI's shape for clients that read it on every route.
    """

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    instance: str | None
    code: str | None
    param: str | None
    error: OpenAIErrorDetail


def problem_error(error: MlxctlError, *, request_id: str | None = None) -> ErrorBody:
    """Return the error response of a route of mlxctl itself."""
    status, detail = error_status(error), error_detail(error)
    problem = Problem(
        title=_OTHER_TITLES.get(status) or HTTPStatus(status).phrase,
        status=status,
        detail=detail.message,
        instance=request_id,
        code=detail.code,
        param=detail.param,
        error=detail,
    )
    return ErrorBody(
        status=status,
        body=msgspec.json.encode(problem),
        headers=error_headers(error),
        media_type=PROBLEM_MEDIA_TYPE,
    )
