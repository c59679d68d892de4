"""Which models fit in memory together and which to evict. Pure.

Arithmetic over sizes and times; loads nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from mlxctl.ir.allowed_models import NO_MODEL, AllowedModels
from mlxctl.ir.errors import NoRoomForModel, describe_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMemoryBudget:
    """Bytes that the weights of loaded models may take.

    `limit_bytes` is for a single model, `shared_bytes` for several together; the latter leaves room for the
    prefix cache. With `max_models` None their number is not limited.
    """

    limit_bytes: int
    shared_bytes: int
    max_models: int | None = None

    def fits(self, sizes: Sequence[int]) -> bool:
        """Whether models of these sizes may be in memory together."""
        if self.max_models is not None and len(sizes) > self.max_models:
            return False
        return sum(sizes) <= (self.limit_bytes if len(sizes) <= 1 else self.shared_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidentModel:
    """A loaded model with its size, leases and time of use.

    `used_at` is when the last lease began or ended, in seconds of any one clock. Without requests it is
    unloaded after `ttl_seconds`, None is never.
    """

    name: str
    num_bytes: int
    num_leases: int = 0
    used_at: float = 0.0
    is_pinned: bool = False
    ttl_seconds: float | None = None


def select_victims(
    residents: Iterable[ResidentModel], *, num_bytes: int, budget: ModelMemoryBudget
) -> tuple[str, ...] | None:
    """Return the models to evict for one of `num_bytes`.

    None if evicting all does not suffice. Pinned models stay. Models without requests go first, and among
    equals the least recently used. No model is evicted needlessly: when a large one goes, smaller ones that
    were selected before it stay.
    """
    order = eviction_order(residents := list(residents))
    victims: list[ResidentModel] = []
    while not _fits(residents, victims, num_bytes, budget):
        if len(victims) == len(order):
            return None
        victims.append(order[len(victims)])
    for victim in reversed(victims.copy()):
        fewer = [other for other in victims if other is not victim]
        if _fits(residents, fewer, num_bytes, budget):
            victims = fewer
    return tuple(victim.name for victim in victims)


def eviction_order(residents: Iterable[ResidentModel]) -> list[ResidentModel]:
    """Return the models that are not pinned, the first to evict first."""
    return sorted(
        (resident for resident in residents if not resident.is_pinned),
        key=lambda resident: (resident.num_leases > 0, resident.used_at, resident.name),
    )


def select_expired(residents: Iterable[ResidentModel], *, now: float) -> tuple[str, ...]:
    """Return the unpinned models whose time to live is over."""
    return tuple(
        resident.name
        for resident in residents
        if not resident.is_pinned
        and not resident.num_leases
        and resident.ttl_seconds is not None
        and now - resident.used_at >= resident.ttl_seconds
    )


class ModelShortage(NoRoomForModel):
    """A model does not fit in memory.

    Its text names no pinned model; that of `naming` names those that the caller may use.
    """

    def __init__(
        self, name: str, residents: Sequence[ResidentModel], *, num_bytes: int, budget: ModelMemoryBudget
    ) -> None:
        self._describe = partial(describe_shortage, residents, num_bytes=num_bytes, budget=budget)
        super().__init__(name, self._describe(NO_MODEL))

    def naming(self, allowed: AllowedModels) -> NoRoomForModel:
        """Return the error for a caller."""
        return NoRoomForModel(self.model, self._describe(allowed))


def describe_shortage(
    residents: Iterable[ResidentModel], allowed: AllowedModels, *, num_bytes: int, budget: ModelMemoryBudget
) -> str:
    """Return why a model does not fit in memory, and the remedy."""
    limit = describe_bytes(budget.limit_bytes)
    needs = f"its weights need {describe_bytes(num_bytes)}, but the memory limit is {limit}"
    pinned = [
        f"{resident.name!r} ({describe_bytes(resident.num_bytes)})"
        if resident.name in allowed
        else f"another model ({describe_bytes(resident.num_bytes)})"
        for resident in residents
        if resident.is_pinned
    ]
    if not pinned:
        return f"{needs}: raise --memory-limit, or take a smaller or more quantized model"
    shared = f"of which several models together may take {describe_bytes(budget.shared_bytes)}"
    count = "" if budget.max_models is None else f", at most {budget.max_models} of them"
    return (
        f"{needs}, {shared}{count}, and {', '.join(pinned)} stays because it is pinned: unpin it or "
        "raise the limit"
    )


def _fits(
    residents: Sequence[ResidentModel],
    victims: Sequence[ResidentModel],
    num_bytes: int,
    budget: ModelMemoryBudget,
) -> bool:
    return budget.fits(
        [*(resident.num_bytes for resident in residents if resident not in victims), num_bytes]
    )
