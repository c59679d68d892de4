"""What ends a request in the engine: errors of other packages, and how they are reported. Pure."""

import logging

FOREIGN_ERRORS = (
    RuntimeError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    AssertionError,
    MemoryError,
)
"""What code of mlx, mlx-lm, mlx-vlm and mlx-audio may raise; they document no narrower types."""

_log = logging.getLogger(__name__)


def failure_message(failure: str, request_id: str) -> str:
    """Log why a request failed; return it with the request's id, if it has one, for the client."""
    if not request_id:
        return failure
    _log.warning("engine: request %s: %s", request_id, failure)
    return f"{failure} (request {request_id})"
