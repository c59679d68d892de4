"""Request headers for clients that cannot add fields to a body."""

from collections.abc import Mapping
from typing import Literal, TypeVar, get_args

from mlxctl.ir import ContextOverflow
from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols.priority import PRIORITY_CLASSES

PRIORITY_HEADER = "x-mlxctl-priority"
OVERFLOW_HEADER = "x-mlxctl-context-overflow"
ROUTE_HEADER = "x-mlxctl-route"
"""Of a request: where it must be answered. Of an answer: where it was."""

_OVERFLOW_POLICIES: dict[str, ContextOverflow] = {name: name for name in get_args(ContextOverflow)}

Route = Literal["local", "remote"]
_ROUTES: dict[str, Route] = {name: name for name in get_args(Route)}

Choice = TypeVar("Choice")


def header_priority(value: str | None) -> int:
    """Return the priority of a header value, 0 without one. Raises InvalidRequest."""
    return 0 if value is None else _choose(PRIORITY_HEADER, value, PRIORITY_CLASSES)


def header_context_overflow(value: str | None) -> ContextOverflow | None:
    """Return the policy of a header value, None without one. Raises InvalidRequest."""
    return None if value is None else _choose(OVERFLOW_HEADER, value, _OVERFLOW_POLICIES)


def header_route(value: str | None) -> Route | None:
    """Return where a request must be answered, None without a header.

    Raises InvalidRequest.
    """
    return None if value is None else _choose(ROUTE_HEADER, value, _ROUTES)


def _choose(header: str, value: str, choices: Mapping[str, Choice]) -> Choice:
    name = value.strip().lower()
    if name not in choices:
        raise InvalidRequest(
            f"header {header} is {value[:64]!r}; it must be one of {', '.join(choices)}", param=header
        )
    return choices[name]
