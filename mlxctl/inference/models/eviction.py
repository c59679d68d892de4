"""Which models may be in memory together, and which has to go.

Pure arithmetic over sizes and times; loads nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mlxctl.errors import describe_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBudget:
    """What models may take: `limit_bytes` one alone, `shared_bytes` several together, which leaves room for
    what they compute.

    `max_models` is how many there may be; None is no limit but memory.
    """

    limit_bytes: int
    shared_bytes: int
    max_models: int | None = None

    def holds(self, sizes: Sequence[int]) -> bool:
        """Whether models of these sizes may be in memory together."""
        if self.max_models is not None and len(sizes) > self.max_models:
            return False
        return sum(sizes) <= (self.limit_bytes if len(sizes) <= 1 else self.shared_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resident:
    """A model in memory: how many requests use it, and when the last of them came or went (seconds of any
    clock).
    """

    name: str
    num_bytes: int
    num_leases: int = 0
    used_at: float = 0.0
    is_pinned: bool = False


def choose_victims(
    residents: Iterable[Resident], *, num_bytes: int, room: MemoryBudget
) -> tuple[str, ...] | None:
    """Return who has to go, so that a model of `num_bytes` has room; None when it has none even without all
    that may go.

    Pinned models stay. Unused ones go before used ones, and among equals the one goes first that was not used
    for longest. Nobody goes who could have stayed: when a large one goes, the small ones that were chosen
    before it are spared again.
    """
    order = eviction_order(residents := list(residents))
    victims: list[Resident] = []
    while not _fits(residents, victims, num_bytes, room):
        if len(victims) == len(order):
            return None
        victims.append(order[len(victims)])
    for victim in reversed(victims.copy()):
        spared = [other for other in victims if other is not victim]
        if _fits(residents, spared, num_bytes, room):
            victims = spared
    return tuple(victim.name for victim in victims)


def eviction_order(residents: Iterable[Resident]) -> list[Resident]:
    """Return those that may go, the first to go first."""
    return sorted(
        (resident for resident in residents if not resident.is_pinned),
        key=lambda resident: (resident.num_leases > 0, resident.used_at, resident.name),
    )


def expired(residents: Iterable[Resident], *, now: float, ttl_seconds: float) -> tuple[str, ...]:
    """Return the models that nobody has used for `ttl_seconds`. Pinned ones do not expire."""
    return tuple(
        resident.name
        for resident in residents
        if not resident.is_pinned and not resident.num_leases and now - resident.used_at >= ttl_seconds
    )


def explain_refusal(residents: Iterable[Resident], *, num_bytes: int, room: MemoryBudget) -> str:
    """Return why a model of `num_bytes` cannot be brought in beside those of the residents that may not go,
    and what to do.
    """
    needs = f"its weights need {describe_bytes(num_bytes)}, but the memory limit is {describe_bytes(room.limit_bytes)}"
    pinned = [
        f"{resident.name!r} ({describe_bytes(resident.num_bytes)})"
        for resident in residents
        if resident.is_pinned
    ]
    if not pinned:
        return f"{needs}: raise --memory-limit, or take a smaller or more quantized model"
    shared = f"of which several models together may take {describe_bytes(room.shared_bytes)}"
    count = "" if room.max_models is None else f", at most {room.max_models} of them"
    return f"{needs}, {shared}{count}, and {', '.join(pinned)} stays because it is pinned: unpin it or raise the limit"


def _fits(
    residents: Sequence[Resident], victims: Sequence[Resident], num_bytes: int, room: MemoryBudget
) -> bool:
    return room.holds([*(resident.num_bytes for resident in residents if resident not in victims), num_bytes])
