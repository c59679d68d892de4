"""Who has to go when a model needs room, in ints."""

from hypothesis import given
from hypothesis import strategies as st

from mlxctl.inference.models.eviction import MemoryBudget, Resident, choose_victims, expired, explain_refusal

ROOM = MemoryBudget(limit_bytes=100, shared_bytes=80)


def resident(
    name: str, num_bytes: int, *, used_at: float = 0.0, num_leases: int = 0, is_pinned: bool = False
) -> Resident:
    return Resident(
        name=name, num_bytes=num_bytes, used_at=used_at, num_leases=num_leases, is_pinned=is_pinned
    )


def test_nobody_goes_while_there_is_room() -> None:
    assert choose_victims([resident("a", 50)], num_bytes=30, room=ROOM) == ()


def test_the_one_that_was_not_used_for_longest_goes_first() -> None:
    residents = [resident("old", 30, used_at=1), resident("new", 30, used_at=2)]
    assert choose_victims(residents, num_bytes=40, room=ROOM) == ("old",)


def test_one_that_answers_goes_only_when_no_idle_one_is_enough() -> None:
    residents = [resident("busy", 40, used_at=1, num_leases=1), resident("idle", 30, used_at=9)]
    assert choose_victims(residents, num_bytes=40, room=ROOM) == ("idle",)
    assert choose_victims(residents, num_bytes=60, room=ROOM) == ("idle", "busy")


def test_a_small_one_is_spared_when_a_large_one_has_to_go_anyway() -> None:
    residents = [resident("small", 10, used_at=1), resident("large", 60, used_at=2)]
    assert choose_victims(residents, num_bytes=70, room=ROOM) == ("large",)


def test_one_model_alone_may_take_the_whole_limit_and_several_leave_room_for_their_caches() -> None:
    assert choose_victims([resident("a", 1)], num_bytes=100, room=ROOM) == ("a",)
    assert choose_victims([], num_bytes=101, room=ROOM) is None


def test_no_more_models_stay_than_allowed() -> None:
    room = MemoryBudget(limit_bytes=100, shared_bytes=80, max_models=2)
    residents = [resident("a", 1, used_at=1), resident("b", 1, used_at=2)]
    assert choose_victims(residents, num_bytes=1, room=room) == ("a",)


def test_a_pinned_model_stays_and_the_refusal_names_it_with_the_numbers() -> None:
    residents = [resident("mine", 50_000_000, is_pinned=True)]
    room = MemoryBudget(limit_bytes=100_000_000, shared_bytes=80_000_000)

    assert choose_victims(residents, num_bytes=40_000_000, room=room) is None

    reason = explain_refusal(residents, num_bytes=40_000_000, room=room)
    assert all(part in reason for part in ("40.00 MB", "0.10 GB", "80.00 MB", "'mine' (50.00 MB)", "unpin"))


def test_idle_models_expire_and_neither_used_nor_pinned_ones_do() -> None:
    residents = [
        resident("idle", 1, used_at=10),
        resident("fresh", 1, used_at=15),
        resident("busy", 1, used_at=10, num_leases=1),
        resident("pinned", 1, used_at=10, is_pinned=True),
    ]
    assert expired(residents, now=19.9, ttl_seconds=10) == ()
    assert expired(residents, now=20.0, ttl_seconds=10) == ("idle",)


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
ROOMS = st.builds(
    MemoryBudget,
    limit_bytes=st.just(100),
    shared_bytes=st.integers(0, 100),
    max_models=st.none() | st.integers(1, 4),
)


@given(residents=RESIDENTS, num_bytes=st.integers(0, 120), room=ROOMS)
def test_the_victims_are_enough_and_none_of_them_could_have_stayed(
    residents: list[Resident], num_bytes: int, room: MemoryBudget
) -> None:
    victims = choose_victims(residents, num_bytes=num_bytes, room=room)

    if victims is None:
        assert not room.holds([*(other.num_bytes for other in residents if other.is_pinned), num_bytes])
        return
    staying = {other.name: other.num_bytes for other in residents if other.name not in victims}
    assert room.holds([*staying.values(), num_bytes])
    assert not any(other.is_pinned for other in residents if other.name in victims)
    sizes = {other.name: other.num_bytes for other in residents}
    for victim in victims:
        assert not room.holds([*staying.values(), sizes[victim], num_bytes])
