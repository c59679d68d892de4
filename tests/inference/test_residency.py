"""Leases on models under a limit that holds only some of them: nobody waits for ever, and no model goes while
it is used.

The loader here moves no weights; it checks at every move what must always hold. Real models take its place in
`test_models_come_and_go` and in `tests/server/test_model_pool`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxctl.errors import (
    BrokenModel,
    EngineDied,
    EngineRecovering,
    ModelInUse,
    ModelUnavailable,
    NotEnoughMemory,
    QueueFull,
    ShuttingDown,
)
from mlxctl.inference.models.eviction import MemoryBudget
from mlxctl.inference.models.lease import Lease
from mlxctl.inference.models.residency import RETRY_SECONDS, ModelResidency

SIZES = {"a": 60, "b": 60, "c": 30, "d": 30}


@dataclass
class CheckedLoader:
    """Holds names instead of weights, and never more of them than there is room for."""

    house: MemoryBudget = field(default_factory=lambda: MemoryBudget(limit_bytes=100, shared_bytes=90))
    inside: dict[str, int] = field(default_factory=dict)
    failures: dict[str, Exception] = field(default_factory=dict)
    moves: list[str] = field(default_factory=list)
    num_leases: Callable[[str], int] = lambda name: 0

    def check_ready(self) -> None:
        pass

    def sizes(self) -> Mapping[str, int]:
        return self.inside

    def num_bytes(self, name: str) -> int:
        return SIZES[name]

    def room(self) -> MemoryBudget:
        return self.house

    async def load(self, name: str) -> None:
        await asyncio.sleep(0)
        assert name not in self.inside
        if name in self.failures:
            raise self.failures[name]
        self.inside[name] = SIZES[name]
        assert self.house.holds(list(self.inside.values()))
        self.moves.append(f"+{name}")

    async def unload(self, name: str) -> None:
        assert self.num_leases(name) == 0, "a model that is used stays"
        await asyncio.sleep(0)
        del self.inside[name]
        self.moves.append(f"-{name}")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def make(*, max_waiting: int = 10, **more: object) -> tuple[ModelResidency, CheckedLoader]:
    loader = CheckedLoader()
    residents = ModelResidency(loader, max_waiting=max_waiting, **more)  # type: ignore[arg-type]
    loader.num_leases = lambda name: next((r.num_leases for r in residents.residents() if r.name == name), 0)
    return residents, loader


async def settle() -> None:
    """Let everything happen that can happen without anybody doing anything."""
    for _ in range(20):
        await asyncio.sleep(0)


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(scenario(), 10)

    asyncio.run(bounded())


def test_a_model_makes_way_for_another_when_its_last_lease_has_ended() -> None:
    async def scenario() -> None:
        residents, loader = make()
        first, second = await residents.lease("a"), await residents.lease("a")
        asking = asyncio.create_task(residents.lease("b"))
        first.release()
        first.release()
        await settle()
        assert loader.moves == ["+a"]

        second.release()

        assert (await asking).name == "b"
        assert loader.moves == ["+a", "-a", "+b"]

    run(scenario)


def test_models_that_fit_together_stay_together() -> None:
    async def scenario() -> None:
        residents, loader = make()
        for name in "acac":
            (await residents.lease(name)).release()
        assert loader.moves == ["+a", "+c"]

    run(scenario)


def test_a_stream_of_requests_for_one_model_does_not_starve_another() -> None:
    """Always one request for `a` is open: when `b` is wanted, later ones for `a` wait until `b` had its turn."""

    async def scenario() -> None:
        residents, loader = make()
        opened = await residents.lease("a")
        wanted = asyncio.create_task(residents.lease("b"))
        await settle()
        later = [asyncio.create_task(residents.lease("a")) for _ in range(5)]
        await settle()
        assert not any(task.done() for task in later)

        opened.release()
        lease = await wanted
        await settle()
        assert not any(task.done() for task in later)
        lease.release()

        assert [(await task).name for task in later] == ["a"] * 5
        assert loader.moves == ["+a", "-a", "+b", "-b", "+a"]

    run(scenario)


def test_whoever_waits_for_the_same_model_is_served_together() -> None:
    async def scenario() -> None:
        residents, loader = make()
        tasks = [asyncio.create_task(residents.lease(name)) for name in "ababab"]
        await settle()
        assert [task.done() for task in tasks] == [True, False] * 3
        for task in tasks[::2]:
            (await task).release()
        assert [(await task).name for task in tasks[1::2]] == ["b"] * 3
        assert loader.moves == ["+a", "-a", "+b"]

    run(scenario)


def test_when_whoever_wanted_it_leaves_the_model_that_made_way_takes_requests_again() -> None:
    async def scenario() -> None:
        residents, loader = make()
        lease = await residents.lease("a")
        wanted = asyncio.create_task(residents.lease("b"))
        await settle()
        again = asyncio.create_task(residents.lease("a"))
        await settle()

        wanted.cancel()

        assert (await again).name == "a"
        assert loader.moves == ["+a"]
        lease.release()

    run(scenario)


def test_more_waiting_requests_than_allowed_are_told_to_come_back() -> None:
    async def scenario() -> None:
        residents, _ = make(max_waiting=2)
        lease = await residents.lease("a")
        waiting = [asyncio.create_task(residents.lease("b")) for _ in range(2)]
        await settle()

        with pytest.raises(QueueFull) as refusal:
            await residents.lease("b")

        assert refusal.value.retry_after_seconds > 0
        lease.release()
        assert len(await asyncio.gather(*waiting)) == 2

    run(scenario)


def test_a_broken_model_is_refused_with_its_reason_and_tried_again_after_a_while() -> None:
    async def scenario() -> None:
        clock = Clock()
        residents, loader = make(clock=clock)
        loader.failures["b"] = BrokenModel("/models/b", "model '/models/b' has no weights")
        (await residents.lease("a")).release()

        for _ in range(2):
            with pytest.raises(ModelUnavailable, match=r"^model 'b' is not available: has no weights$"):
                await residents.lease("b")
        assert residents.state("b") == "failed"
        del loader.failures["b"]
        with pytest.raises(ModelUnavailable):
            await residents.lease("b")
        clock.now += RETRY_SECONDS

        assert (await residents.lease("b")).name == "b"
        assert (residents.state("b"), residents.problem("b")) == ("loaded", None)

    run(scenario)


def test_a_model_that_takes_more_than_it_said_makes_the_others_go_before_it_is_refused() -> None:
    async def scenario() -> None:
        residents, loader = make()
        (await residents.lease("d")).release()
        loader.failures["c"] = NotEnoughMemory("/c", needed_bytes=30, limit_bytes=100)

        with pytest.raises(ModelUnavailable, match="memory limit"):
            await residents.lease("c")

        assert loader.moves == ["+d", "-d"]
        assert residents.state("c") == "not_loaded"

    run(scenario)


def test_a_pinned_model_is_never_evicted_and_the_other_is_refused() -> None:
    async def scenario() -> None:
        residents, _ = make(pins=frozenset({"a"}))
        (await residents.lease("a")).release()
        with pytest.raises(ModelUnavailable, match=r"'a' .* is pinned"):
            await residents.lease("b")
        residents.pins.clear()
        assert (await residents.lease("b")).name == "b"

    run(scenario)


def test_an_idle_model_goes_after_its_time_and_a_used_one_stays() -> None:
    async def scenario() -> None:
        clock = Clock()
        residents, loader = make(clock=clock, ttl_seconds=60.0)
        (await residents.lease("c")).release()
        used = await residents.lease("d")
        clock.now = 59.9
        await residents.sweep()
        assert set(loader.inside) == {"c", "d"}

        clock.now = 60.0
        await residents.sweep()
        assert set(loader.inside) == {"d"}
        clock.now = 100.0
        used.release()
        clock.now = 159.0
        await residents.sweep()
        assert set(loader.inside) == {"d"}
        clock.now = 160.0
        await residents.sweep()
        assert not loader.inside

    run(scenario)


def test_a_model_can_be_unloaded_by_hand_unless_it_is_used() -> None:
    async def scenario() -> None:
        residents, loader = make()
        lease = await residents.lease("a")
        with pytest.raises(ModelInUse):
            await residents.unload("a")
        lease.release()
        assert await residents.unload("a")
        assert not await residents.unload("a")
        await residents.load("a")
        assert loader.moves == ["+a", "-a", "+a"]

    run(scenario)


def test_when_the_engine_dies_while_it_loads_whoever_waits_is_told_to_come_back() -> None:
    async def scenario() -> None:
        residents, loader = make()
        loader.failures["a"] = EngineDied("it died")
        with pytest.raises(EngineRecovering):
            await residents.lease("a")
        del loader.failures["a"]
        assert (await residents.lease("a")).name == "a"

    run(scenario)


def test_when_the_server_stops_nobody_goes_on_waiting() -> None:
    async def scenario() -> None:
        residents, _ = make()
        lease = await residents.lease("a")
        waiting = asyncio.create_task(residents.lease("b"))
        await settle()

        await residents.close()

        with pytest.raises(ShuttingDown):
            await waiting
        lease.release()

    run(scenario)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.sampled_from("abcd")),
        st.tuples(st.just("end"), st.integers(0, 5)),
        st.tuples(st.just("leave"), st.integers(0, 5)),
        st.tuples(st.just("unload"), st.sampled_from("abcd")),
        st.tuples(st.just("wait"), st.integers(0, 40)),
    ),
    max_size=40,
)


@given(steps=STEPS, max_models=st.sampled_from([None, 1, 2]))
def test_whatever_comes_and_goes_everybody_is_served_and_no_used_model_is_evicted(
    steps: list[tuple[str, str | int]], max_models: int | None
) -> None:
    async def scenario() -> None:
        clock = Clock()
        residents, loader = make(max_waiting=100, ttl_seconds=30.0, clock=clock)
        loader.house = MemoryBudget(limit_bytes=100, shared_bytes=90, max_models=max_models)
        asked: list[asyncio.Task[Lease]] = []
        side: list[asyncio.Task[object]] = []
        for action, value in steps:
            if action == "ask":
                asked.append(asyncio.create_task(residents.lease(str(value))))
            elif action == "unload":
                side.append(asyncio.create_task(residents.unload(str(value))))
            elif action == "wait":
                clock.now += float(value)
                side.append(asyncio.create_task(residents.sweep()))
            elif asked:
                partial(release if action == "end" else leave, asked.pop(int(value) % len(asked)))()
            await asyncio.sleep(0)
        while asked:
            await settle()
            served = [task for task in asked if task.done()]
            assert served, "somebody waits though nothing is in the way"
            for task in served:
                release(task)
            asked = [task for task in asked if task not in served]
        for outcome in await asyncio.gather(*side, return_exceptions=True):
            assert isinstance(outcome, bool | None | ModelInUse)
        assert all(resident.num_leases == 0 for resident in residents.residents())

    run(scenario)


def release(task: "asyncio.Task[Lease]") -> None:
    """End a request, also one that was not served yet."""
    if task.done():
        task.result().release()
    else:
        task.cancel()


def leave(task: "asyncio.Task[Lease]") -> None:
    """A client goes, at the very moment in which it may have been served."""
    if not task.cancel():
        task.result().release()
