"""The rule for fields that switch thinking, shared by all protocols.

Of several fields the first one that is set counts; each protocol has its own order.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from mlxctl.ir import ThinkingOptions
from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols.decoding import check_nesting

_Value = TypeVar("_Value")


def template_arguments(kwargs: Mapping[str, Any] | None) -> tuple[bool | None, dict[str, Any]]:
    """Split `chat_template_kwargs` into its `enable_thinking` and the rest.

    Raises InvalidRequest.
    """
    others = dict(kwargs or {})
    check_nesting(others, "chat_template_kwargs")
    switch = others.pop("enable_thinking", None)
    if not isinstance(switch, bool | None):
        path = "chat_template_kwargs.enable_thinking"
        raise InvalidRequest(f"{path} must be a boolean", param=path)
    return switch, others


def thinking_options(
    *,
    switches: Iterable[bool | str | None],
    efforts: Iterable[str | None] = (),
    budgets: Iterable[int | None] = (),
) -> ThinkingOptions:
    """Return the thinking options of fields in their order of precedence.

    A switch that is a string is an effort, after `efforts`. The effort `none` is a switch, after `switches`.
    """
    given = list(switches)
    enabled = _first(switch for switch in given if not isinstance(switch, str))
    effort = _first((*efforts, *(switch for switch in given if isinstance(switch, str))))
    budget = _first(budgets)
    if effort == "none":
        return ThinkingOptions(enabled=bool(enabled), max_tokens=budget)
    return ThinkingOptions(enabled=enabled, effort=effort, max_tokens=budget)


def _first(values: Iterable[_Value | None]) -> _Value | None:
    return next((value for value in values if value is not None), None)
