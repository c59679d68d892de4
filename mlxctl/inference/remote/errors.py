"""Conversion of another server's error responses to mlxctl's errors."""

import re

import msgspec

from mlxctl.inference.remote.server_answers import UNREADABLE
from mlxctl.ir.errors import (
    AuthenticationFailed,
    CapacityError,
    InvalidRequest,
    MlxctlError,
    SequenceFailed,
    UnknownResource,
    shortened,
)
from mlxctl.terminal_text import escape_line

_SECONDS = re.compile(r"[0-9]{1,9}")
REDIRECTED = "redirected"
"""Code of the error for a server that redirects."""
_BUSY = frozenset({408, 425, 429, 502, 503, 504, 529})


class _ErrorBody(msgspec.Struct, frozen=True):
    message: str = ""
    param: str | None = None
    code: str | int | None = None


class _Body(msgspec.Struct, frozen=True):
    error: _ErrorBody | str | None = None
    message: str | None = None
    detail: str | None = None


def error_of_response(status: int, body: bytes, *, retry_after: str | None = None) -> MlxctlError:
    """Return the error for a response.

    Its message is the server's, if it has one.
    """
    error = _read(body)
    message = error_message(body) or f"the server answered {status} without a reason"
    if 300 <= status < 400:
        message = f"the server redirects to another URL ({status}); give the final one"
        return InvalidRequest(message, code=REDIRECTED)
    code = error.code if isinstance(error.code, str) else None
    if status in (401, 403):
        return AuthenticationFailed(message)
    if status == 404:
        return UnknownResource(message)
    if status in _BUSY:
        return CapacityError(message, retry_after_seconds=_seconds(retry_after))
    if 400 <= status < 500:
        return InvalidRequest(message, param=error.param, code=code)
    return SequenceFailed(message)


def key_problem(url: str, *, has_key: bool) -> AuthenticationFailed:
    """Return the error of a missing or wrong key, naming the option."""
    problem = "rejects this API key; give another" if has_key else "needs an API key; give one"
    return AuthenticationFailed(f"the server at {url} {problem} with --api-key or MLXCTL_API_KEY")


def error_message(body: bytes) -> str:
    """Return the message of an error body in one line, or ""."""
    return escape_line(shortened(_read(body).message))


def _read(body: bytes) -> _ErrorBody:
    try:
        read = msgspec.json.decode(body, type=_Body)
    except UNREADABLE:
        return _ErrorBody()
    if isinstance(read.error, _ErrorBody):
        return read.error
    return _ErrorBody(message=read.error or read.message or read.detail or "")


def _seconds(retry_after: str | None) -> float:
    # The header may also be a date; the default pause does for that.
    return float(retry_after) if retry_after and _SECONDS.fullmatch(retry_after) else 1.0
