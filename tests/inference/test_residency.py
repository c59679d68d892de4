"""Leases on models under a memory limit.

No request waits for ever, and no leased model is evicted. The loader here operations no weights; it checks
invariants at every load. Real models are used in `tests/server/test_model_pool.py`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxctl.inference.models.eviction import ModelMemoryBudget, ModelShortage
from mlxctl.inference.models.leases import Lease
from mlxctl.inference.models.residency import RETRY_SECONDS, ModelResidency
from mlxctl.ir.errors import (
    BrokenModel,
    EngineDied,
    EngineRecovering,
    ModelInUse,
    ModelUnavailable,
    NotEnoughMemory,
    QueueFull,
    ShuttingDown,
)

SIZES = {"a": 60, "b": 60, "c": 30, "d": 30}


@dataclass
class CheckedLoader:
    """Loads names instead of weights, and asserts that they fit."""

    memory: ModelMemoryBudget = field(
        default_factory=lambda: ModelMemoryBudget(limit_bytes=100, shared_bytes=90)
    )
    loaded: dict[str, int] = field(default_factory=dict)
    failures: dict[str, Exception] = field(default_factory=dict)
    operations: list[str] = field(default_factory=list)
    num_leases: Callable[[str], int] = lambda name: 0

    def check_ready(self) -> None:
        pass

    def sizes(self) -> Mapping[str, int]:
        return self.loaded

    def num_bytes(self, name: str) -> int:
        return SIZES[name]

    def budget(self) -> ModelMemoryBudget:
        return self.memory

    async def load(self, name: str) -> None:
        await asyncio.sleep(0)
        assert name not in self.loaded
        if name in self.failures:
            raise self.failures[name]
        self.loaded[name] = SIZES[name]
        assert self.memory.fits(list(self.loaded.values()))
        self.operations.append(f"+{name}")

    async def unload(self, name: str) -> None:
        assert self.num_leases(name) == 0, "a leased model must not be unloaded"
        await asyncio.sleep(0)
        del self.loaded[name]
        self.operations.append(f"-{name}")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def make(*, max_waiting: int = 10, **more: object) -> tuple[ModelResidency, CheckedLoader]:
    loader = CheckedLoader()
    residency = ModelResidency(loader, max_waiting=max_waiting, **more)  # type: ignore[arg-type]
    loader.num_leases = lambda name: next((r.num_leases for r in residency.residents() if r.name == name), 0)
    return residency, loader


async def settle() -> None:
    """Let all ready tasks run."""
    for _ in range(20):
        await asyncio.sleep(0)


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(scenario(), 60)

    asyncio.run(bounded())


def test_shared_lease_ends_with_its_last_holder() -> None:
    changes: list[int] = []
    lease = Lease("a", lambda _, change: changes.append(change))
    lease.share()

    for _ in range(3):
        lease.release()

    assert changes == [1, 1, -1, -1]


def test_model_is_evicted_when_its_last_lease_ends() -> None:
    async def scenario() -> None:
        residency, loader = make()
        first, second = await residency.lease("a"), await residency.lease("a")
        asking = asyncio.create_task(residency.lease("b"))
        first.release()
        first.release()
        await settle()
        assert loader.operations == ["+a"]

        second.release()

        assert (await asking).name == "b"
        assert loader.operations == ["+a", "-a", "+b"]

    run(scenario)


def test_models_that_fit_together_are_not_evicted() -> None:
    async def scenario() -> None:
        residency, loader = make()
        for name in "acac":
            (await residency.lease(name)).release()
        assert loader.operations == ["+a", "+c"]

    run(scenario)


def test_stream_of_requests_for_one_model_does_not_starve_another() -> None:
    async def scenario() -> None:
        residency, loader = make()
        opened = await residency.lease("a")
        wanted = asyncio.create_task(residency.lease("b"))
        await settle()
        later = [asyncio.create_task(residency.lease("a")) for _ in range(5)]
        await settle()
        assert not any(task.done() for task in later)

        opened.release()
        lease = await wanted
        await settle()
        assert not any(task.done() for task in later)
        lease.release()

        assert [(await task).name for task in later] == ["a"] * 5
        assert loader.operations == ["+a", "-a", "+b", "-b", "+a"]

    run(scenario)


def test_requests_for_the_same_model_are_served_together() -> None:
    async def scenario() -> None:
        residency, loader = make()
        tasks = [asyncio.create_task(residency.lease(name)) for name in "ababab"]
        await settle()
        assert [task.done() for task in tasks] == [True, False] * 3
        for task in tasks[::2]:
            (await task).release()
        assert [(await task).name for task in tasks[1::2]] == ["b"] * 3
        assert loader.operations == ["+a", "-a", "+b"]

    run(scenario)


def test_eviction_stops_when_the_waiting_request_is_cancelled() -> None:
    async def scenario() -> None:
        residency, loader = make()
        lease = await residency.lease("a")
        wanted = asyncio.create_task(residency.lease("b"))
        await settle()
        again = asyncio.create_task(residency.lease("a"))
        await settle()

        wanted.cancel()

        assert (await again).name == "a"
        assert loader.operations == ["+a"]
        lease.release()

    run(scenario)


def test_full_queue_raises_queue_full_with_retry_after() -> None:
    async def scenario() -> None:
        residency, _ = make(max_waiting=2)
        lease = await residency.lease("a")
        waiting = [asyncio.create_task(residency.lease("b")) for _ in range(2)]
        await settle()

        with pytest.raises(QueueFull) as error:
            await residency.lease("b")

        assert error.value.retry_after_seconds > 0
        lease.release()
        assert len(await asyncio.gather(*waiting)) == 2

    run(scenario)


def test_broken_model_is_rejected_with_reason_and_retried_later() -> None:
    async def scenario() -> None:
        clock = Clock()
        residency, loader = make(clock=clock)
        loader.failures["b"] = BrokenModel("/models/b", "model '/models/b' has no weights")
        (await residency.lease("a")).release()

        for _ in range(2):
            with pytest.raises(ModelUnavailable, match=r"^model 'b' is not available: has no weights$"):
                await residency.lease("b")
        assert residency.state("b") == "failed"
        del loader.failures["b"]
        with pytest.raises(ModelUnavailable):
            await residency.lease("b")
        clock.now += RETRY_SECONDS

        assert (await residency.lease("b")).name == "b"
        assert (residency.state("b"), residency.problem("b")) == ("loaded", None)

    run(scenario)


def test_model_larger_than_estimated_evicts_others_before_failing() -> None:
    async def scenario() -> None:
        residency, loader = make()
        (await residency.lease("d")).release()
        loader.failures["c"] = NotEnoughMemory("/c", needed_bytes=30, limit_bytes=100)

        with pytest.raises(ModelUnavailable, match="memory limit"):
            await residency.lease("c")

        assert loader.operations == ["+d", "-d"]
        assert residency.state("c") == "not_loaded"
        # A shortage is measured again by every request: no time passes on this clock.
        del loader.failures["c"]
        assert (await residency.lease("c")).name == "c"

    run(scenario)


def test_pinned_model_is_never_evicted() -> None:
    async def scenario() -> None:
        residency, _ = make(pins=frozenset({"a"}))
        (await residency.lease("a")).release()
        with pytest.raises(ModelShortage, match=r"another model .* is pinned"):
            await residency.lease("b")
        residency.pins.clear()
        assert (await residency.lease("b")).name == "b"

    run(scenario)


def test_requested_time_to_live_holds_until_the_model_is_unloaded() -> None:
    async def scenario() -> None:
        clock = Clock()
        residency, loader = make(clock=clock, ttl_seconds=60.0)
        for name in ("c", "d"):
            (await residency.lease(name)).release()
        residency.keep_alive("c", 5.0)
        residency.keep_alive("d", None)
        assert residency.seconds_to_expiry() == 5.0
        clock.now = 70.0
        await residency.unload_expired()
        assert set(loader.loaded) == {"d"}
        (await residency.lease("c")).release()
        assert (residency.seconds_to_expiry("c"), residency.seconds_to_expiry("d")) == (60.0, None)

    run(scenario)


def test_requested_time_to_live_ends_with_eviction() -> None:
    async def scenario() -> None:
        residency, loader = make(ttl_seconds=60.0)
        (await residency.lease("a")).release()
        residency.keep_alive("a", 5.0)
        (await residency.lease("b")).release()
        (await residency.lease("a")).release()

        assert loader.operations == ["+a", "-a", "+b", "-b", "+a"]
        assert [model.ttl_seconds for model in residency.residents()] == [60.0]

    run(scenario)


def test_idle_model_expires_and_leased_one_stays() -> None:
    async def scenario() -> None:
        clock = Clock()
        residency, loader = make(clock=clock, ttl_seconds=60.0)
        (await residency.lease("c")).release()
        used = await residency.lease("d")
        clock.now = 59.9
        await residency.unload_expired()
        assert set(loader.loaded) == {"c", "d"}

        clock.now = 60.0
        await residency.unload_expired()
        assert set(loader.loaded) == {"d"}
        clock.now = 100.0
        used.release()
        clock.now = 159.0
        await residency.unload_expired()
        assert set(loader.loaded) == {"d"}
        clock.now = 160.0
        await residency.unload_expired()
        assert not loader.loaded

    run(scenario)


def test_unload_fails_while_the_model_is_leased() -> None:
    async def scenario() -> None:
        residency, loader = make()
        lease = await residency.lease("a")
        with pytest.raises(ModelInUse):
            await residency.unload("a")
        lease.release()
        assert await residency.unload("a")
        assert not await residency.unload("a")
        await residency.load("a")
        assert loader.operations == ["+a", "-a", "+a"]

    run(scenario)


def test_engine_death_during_load_raises_engine_recovering() -> None:
    async def scenario() -> None:
        residency, loader = make()
        loader.failures["a"] = EngineDied("it died")
        with pytest.raises(EngineRecovering):
            await residency.lease("a")
        del loader.failures["a"]
        assert (await residency.lease("a")).name == "a"

    run(scenario)


def test_close_fails_waiting_requests() -> None:
    async def scenario() -> None:
        residency, _ = make()
        lease = await residency.lease("a")
        waiting = asyncio.create_task(residency.lease("b"))
        await settle()

        await residency.close()

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
def test_any_sequence_serves_all_and_evicts_no_leased_model(
    steps: list[tuple[str, str | int]], max_models: int | None
) -> None:
    async def scenario() -> None:
        clock = Clock()
        residency, loader = make(max_waiting=100, ttl_seconds=30.0, clock=clock)
        loader.memory = ModelMemoryBudget(limit_bytes=100, shared_bytes=90, max_models=max_models)
        body: list[asyncio.Task[Lease]] = []
        side: list[asyncio.Task[object]] = []
        for action, value in steps:
            if action == "ask":
                body.append(asyncio.create_task(residency.lease(str(value))))
            elif action == "unload":
                side.append(asyncio.create_task(residency.unload(str(value))))
            elif action == "wait":
                clock.now += float(value)
                side.append(asyncio.create_task(residency.unload_expired()))
            elif body:
                partial(release if action == "end" else leave, body.pop(int(value) % len(body)))()
            await asyncio.sleep(0)
        while body:
            await settle()
            served = [task for task in body if task.done()]
            assert served, "a request waits though nothing blocks it"
            for task in served:
                release(task)
            body = [task for task in body if task not in served]
        for outcome in await asyncio.gather(*side, return_exceptions=True):
            assert isinstance(outcome, bool | None | ModelInUse)
        assert all(resident.num_leases == 0 for resident in residency.residents())

    run(scenario)


def release(task: "asyncio.Task[Lease]") -> None:
    """Release a lease, or cancel its request."""
    if task.done():
        task.result().release()
    else:
        task.cancel()


def leave(task: "asyncio.Task[Lease]") -> None:
    """Cancel a request that may have been served just now."""
    if not task.cancel():
        task.result().release()
