"""Errors that end a request, and how they are reported.

Includes errors of other packages. Pure.
"""

import logging

FOREIGN_ERRORS = (
    RuntimeError,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    NameError,
    AttributeError,
    AssertionError,
    MemoryError,
)
"""What code of mlx, mlx-lm, mlx-vlm and mlx-audio may raise; they document no narrower types."""

_log = logging.getLogger(__name__)


def failure_message(failure: str, request_id: str) -> str:
    """Log why a request failed, and return the message for the client.

    With the request's id, if it has one.
    """
    if not request_id:
        return failure
    _log.warning("engine: request %s: %s", request_id, failure)
    return f"{failure} (request {request_id})"
