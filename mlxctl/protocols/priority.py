"""Priority of a request: body fields and header.

OpenAI's endpoints have body fields; the header works for every protocol.
"""

from typing import Annotated, Literal

from msgspec import Meta

from mlxctl.errors import InvalidRequest

MIN_PRIORITY, MAX_PRIORITY = -100, 100

Priority = Annotated[int, Meta(ge=MIN_PRIORITY, le=MAX_PRIORITY)]
"""As in vLLM: a request with a lower value is served first; 0 is the default."""

ServiceTier = Literal["auto", "default", "flex", "scale", "priority"]
ServedTier = Literal["default", "flex", "priority"]

PRIORITY_HEADER = "x-mlxctl-priority"
PRIORITY_CLASSES = {"interactive": -10, "default": 0, "background": 10}
"""The values of the header, for clients that cannot add fields to a body."""

_TIERS: dict[ServiceTier, int | None] = {
    "auto": None,
    "default": 0,
    "scale": 0,
    "flex": PRIORITY_CLASSES["background"],
    "priority": PRIORITY_CLASSES["interactive"],
}


def requested_priority(priority: int | None, tier: ServiceTier | None) -> int | None:
    """Return the priority of a body, None without one.

    Its number takes precedence over its service tier.
    """
    return _TIERS[tier] if priority is None and tier is not None else priority


def served_tier(priority: int | None, tier: ServiceTier | None) -> ServedTier:
    """Return the service tier that corresponds to a body's priority."""
    number = requested_priority(priority, tier) or 0
    return "default" if not number else "priority" if number < 0 else "flex"


def header_priority(value: str | None) -> int:
    """Return the priority of a header value. Raises InvalidRequest."""
    if value is None:
        return 0
    name = value.strip().lower()
    if name not in PRIORITY_CLASSES:
        raise InvalidRequest(
            f"header {PRIORITY_HEADER} is {value[:64]!r}; it must be one of {', '.join(PRIORITY_CLASSES)}",
            param=PRIORITY_HEADER,
        )
    return PRIORITY_CLASSES[name]
