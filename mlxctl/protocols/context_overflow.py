"""The header of the context overflow policy.

For clients that cannot add fields to a body.
"""

from typing import get_args

from mlxctl.errors import InvalidRequest
from mlxctl.ir import ContextOverflow

OVERFLOW_HEADER = "x-mlxctl-context-overflow"
_POLICIES: dict[str, ContextOverflow] = {name: name for name in get_args(ContextOverflow)}


def header_context_overflow(value: str | None) -> ContextOverflow | None:
    """Return the policy of a header value, None without one. Raises InvalidRequest."""
    if value is None:
        return None
    name = value.strip().lower()
    if name not in _POLICIES:
        raise InvalidRequest(
            f"header {OVERFLOW_HEADER} is {value[:64]!r}; it must be one of {', '.join(_POLICIES)}",
            param=OVERFLOW_HEADER,
        )
    return _POLICIES[name]
