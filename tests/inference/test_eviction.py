"""Selection of models to evict."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mlxctl.inference.models.eviction import (
    ModelMemoryBudget,
    ModelShortage,
    ResidentModel,
    describe_shortage,
    select_expired,
    select_victims,
)
from mlxctl.ir.allowed_models import EVERY_MODEL, AllowedModels

BUDGET = ModelMemoryBudget(limit_bytes=100, shared_bytes=80)


def resident(name: str, num_bytes: int, **more: Any) -> ResidentModel:
    return ResidentModel(name=name, num_bytes=num_bytes, **more)


def test_no_model_is_evicted_while_there_is_memory() -> None:
    assert select_victims([resident("a", 50)], num_bytes=30, budget=BUDGET) == ()


def test_least_recently_used_model_is_evicted_first() -> None:
    residents = [resident("old", 30, used_at=1), resident("new", 30, used_at=2)]
    assert select_victims(residents, num_bytes=40, budget=BUDGET) == ("old",)


def test_busy_model_is_evicted_only_when_idle_ones_do_not_suffice() -> None:
    residents = [resident("busy", 40, used_at=1, num_leases=1), resident("idle", 30, used_at=9)]
    assert select_victims(residents, num_bytes=40, budget=BUDGET) == ("idle",)
    assert select_victims(residents, num_bytes=60, budget=BUDGET) == ("idle", "busy")


def test_small_model_stays_when_a_large_one_is_evicted_anyway() -> None:
    residents = [resident("small", 10, used_at=1), resident("large", 60, used_at=2)]
    assert select_victims(residents, num_bytes=70, budget=BUDGET) == ("large",)


def test_single_model_may_take_the_whole_limit() -> None:
    assert select_victims([resident("a", 1)], num_bytes=100, budget=BUDGET) == ("a",)
    assert select_victims([], num_bytes=101, budget=BUDGET) is None


def test_max_models_is_respected() -> None:
    budget = ModelMemoryBudget(limit_bytes=100, shared_bytes=80, max_models=2)
    residents = [resident("a", 1, used_at=1), resident("b", 1, used_at=2)]
    assert select_victims(residents, num_bytes=1, budget=budget) == ("a",)


def test_shortage_message_names_pinned_models_and_sizes() -> None:
    residents = [resident("mine", 50_000_000, is_pinned=True)]
    budget = ModelMemoryBudget(limit_bytes=100_000_000, shared_bytes=80_000_000)

    assert select_victims(residents, num_bytes=40_000_000, budget=budget) is None

    reason = describe_shortage(residents, EVERY_MODEL, num_bytes=40_000_000, budget=budget)
    assert all(part in reason for part in ("40.00 MB", "0.10 GB", "80.00 MB", "'mine' (50.00 MB)", "unpin"))


def test_shortage_message_names_only_models_of_the_caller() -> None:
    residents = [resident("mine", 10_000_000, is_pinned=True), resident("theirs", 40_000_000, is_pinned=True)]
    budget = ModelMemoryBudget(limit_bytes=100_000_000, shared_bytes=80_000_000)

    shortage = ModelShortage("m", residents, num_bytes=40_000_000, budget=budget)
    assert "another model (10.00 MB), another model (40.00 MB) stays" in str(shortage)
    assert "'mine' (10.00 MB), another model (40.00 MB) stays" in str(
        shortage.naming(AllowedModels(("mine",)))
    )


def test_only_idle_unpinned_models_expire() -> None:
    residents = [
        resident("idle", 1, used_at=10, ttl_seconds=10),
        resident("fresh", 1, used_at=15, ttl_seconds=10),
        resident("busy", 1, used_at=10, ttl_seconds=10, num_leases=1),
        resident("pinned", 1, used_at=10, ttl_seconds=10, is_pinned=True),
        resident("kept", 1, used_at=10),
    ]
    assert select_expired(residents, now=19.9) == ()
    assert select_expired(residents, now=20.0) == ("idle",)


RESIDENTS = st.lists(
    st.builds(
        resident,
        st.uuids().map(str),
        st.integers(0, 60),
        used_at=st.integers(0, 5),
        num_leases=st.integers(0, 2),
        is_pinned=st.booleans(),
    ),
    max_size=6,
)
BUDGETS = st.builds(
    ModelMemoryBudget,
    limit_bytes=st.just(100),
    shared_bytes=st.integers(0, 100),
    max_models=st.none() | st.integers(1, 4),
)


@given(residents=RESIDENTS, num_bytes=st.integers(0, 120), budget=BUDGETS)
def test_victims_suffice_and_each_is_needed(
    residents: list[ResidentModel], num_bytes: int, budget: ModelMemoryBudget
) -> None:
    victims = select_victims(residents, num_bytes=num_bytes, budget=budget)

    if victims is None:
        assert not budget.fits([*(other.num_bytes for other in residents if other.is_pinned), num_bytes])
        return
    staying = {other.name: other.num_bytes for other in residents if other.name not in victims}
    assert budget.fits([*staying.values(), num_bytes])
    assert not any(other.is_pinned for other in residents if other.name in victims)
    sizes = {other.name: other.num_bytes for other in residents}
    for victim in victims:
        assert not budget.fits([*staying.values(), sizes[victim], num_bytes])
