"""Priority of a request: OpenAI's body fields, and classes for a header."""

from typing import Annotated, Literal

from msgspec import Meta

MIN_PRIORITY, MAX_PRIORITY = -100, 100

Priority = Annotated[int, Meta(ge=MIN_PRIORITY, le=MAX_PRIORITY)]
"""As in vLLM: a request with a lower value is served first; 0 is the default."""

ServiceTier = Literal["auto", "default", "flex", "scale", "priority", "fast", "ultrafast"]
ServedTier = Literal["default", "flex", "priority"]

PRIORITY_CLASSES = {"interactive": -10, "default": 0, "background": 10}
"""The values of the header."""

_TIERS: dict[ServiceTier, int | None] = {
    "auto": None,
    "default": 0,
    "scale": 0,
    "flex": PRIORITY_CLASSES["background"],
    "priority": PRIORITY_CLASSES["interactive"],
    "fast": PRIORITY_CLASSES["interactive"],
    "ultrafast": PRIORITY_CLASSES["interactive"],
}


def tier_priority(tier: ServiceTier | None) -> int | None:
    """Return the priority of a service tier, None where it sets none."""
    return None if tier is None else _TIERS[tier]


def served_tier(priority: int | None, tier: ServiceTier | None) -> ServedTier:
    """Return the service tier that corresponds to a body's priority.

    Its number takes precedence over its service tier.
    """
    number = (tier_priority(tier) if priority is None else priority) or 0
    return "default" if not number else "priority" if number < 0 else "flex"
