"""Rounds in the order A B A B: disturbances affect both servers.

Finished rounds are never lost: after an interruption or an error they form a partial result. Event-loop
thread only.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Protocol

from mlxctl.bench.figures import Figure, Sample, Spread
from mlxctl.bench.prompts import Prompts
from mlxctl.bench.result import ClientCost, Measurement, PairedRatio
from mlxctl.bench.scenarios import Scenario
from mlxctl.bench.target import BenchTarget
from mlxctl.ir.errors import MlxctlError

# With fewer rounds a ratio cannot be distinguished from chance.
_MIN_ROUNDS = 3
# Smaller differences are not visible in the table.
_NEGLIGIBLE = 0.005
# Above this share of a core the client may have delayed the server.
_BOTTLENECK_SHARE = 0.7
# Below this rate each token wakes the client, which is not representative of high load.
_MIN_RATE_FOR_COST = 500.0


class Observer(Protocol):
    """Receives the progress of a run."""

    def open(self, label: str, url: str | None) -> None:
        """A server is contacted, or started when it has no URL."""

    def begin(self, what: str, label: str) -> None:
        """A warm-up or round of one target begins."""

    def end(self, what: str, label: str, *, is_last: bool) -> None:
        """It is finished; the last target ends the round."""


@dataclass(slots=True)
class Rounds:
    """Samples by target in order, and the client's cost.

    Only rounds that every target finished count.
    """

    samples: dict[str, list[Sample]]
    problem: str | None = None
    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0
    num_tokens: int = 0

    @property
    def num_finished(self) -> int:
        """Number of rounds that every target finished."""
        return min(len(samples) for samples in self.samples.values())

    @property
    def client(self) -> ClientCost:
        """The cost of the client."""
        share = self.cpu_seconds / self.wall_seconds if self.wall_seconds else 0.0
        is_busy = self.num_tokens >= _MIN_RATE_FOR_COST * max(self.wall_seconds, 1.0)
        return ClientCost(
            cpu_seconds=self.cpu_seconds,
            wall_seconds=self.wall_seconds,
            num_tokens=self.num_tokens,
            core_share=share,
            per_thousand=1000 * self.cpu_seconds / self.num_tokens if is_busy else None,
            was_bottleneck=share > _BOTTLENECK_SHARE,
        )


async def run_rounds(
    scenario: Scenario,
    targets: Sequence[BenchTarget],
    prompts: Prompts,
    observer: Observer,
    *,
    num_rounds: int,
    num_warmups: int,
) -> Rounds:
    """Calibrate, warm up, then measure every target in every round.

    A cancellation ends the rounds and becomes their problem. Raises MlxctlError only before the first round.
    """
    rounds = Rounds(samples={target.label: [] for target in targets})
    with keep_finished_rounds(rounds):
        tokens_per_word = [await target.calibrate(prompts) for target in targets]
        prompts = replace(prompts, tokens_per_word=tokens_per_word[0])
        for iteration in iterations(num_rounds=num_rounds, num_warmups=num_warmups):
            for target in targets:
                observer.begin(iteration.label, target.label)
                with measure_client_cost(rounds, target) if iteration.is_measured else nullcontext():
                    sample = await scenario.measure(target, prompts, iteration.label)
                observer.end(iteration.label, target.label, is_last=target.is_last)
                if iteration.is_measured:
                    rounds.samples[target.label].append(sample)
    return rounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Iteration:
    """A warm-up, or a measured round."""

    label: str
    is_measured: bool


def iterations(*, num_rounds: int, num_warmups: int) -> Iterator[Iteration]:
    """Yield the warm-ups, then the rounds."""
    yield from (
        Iteration(label=f"warm-up {number}/{num_warmups}", is_measured=False)
        for number in range(1, num_warmups + 1)
    )
    yield from (
        Iteration(label=f"round {number}/{num_rounds}", is_measured=True)
        for number in range(1, num_rounds + 1)
    )


@contextmanager
def keep_finished_rounds(rounds: Rounds) -> Iterator[None]:
    """Record why rounds ended early; raise only without finished rounds."""
    try:
        yield
    except asyncio.CancelledError:
        rounds.problem = "interrupted"
        task = asyncio.current_task()
        assert task is not None, "runs as a task"
        # Stopping the server, which follows, must not be cancelled.
        task.uncancel()
    except MlxctlError as error:
        if rounds.num_finished == 0:
            raise
        rounds.problem = str(error)


def measurements(figures: Sequence[Figure], rounds: Rounds) -> tuple[Measurement, ...]:
    """Summarize each figure of each target."""
    return tuple(
        Measurement.of(target, figure, values)
        for figure in figures
        for target, samples in rounds.samples.items()
        if (values := [sample[figure.name] for sample in samples if figure.name in sample])
    )


def paired_ratios(scenario: Scenario, rounds: Rounds) -> tuple[PairedRatio, ...]:
    """Return ratios of A and B by round; empty for one target."""
    if len(rounds.samples) < 2:
        return ()
    pairs = list(zip(rounds.samples["A"], rounds.samples["B"], strict=False))
    found = []
    for figure in scenario.figures:
        both = [(a[figure.name], b[figure.name]) for a, b in pairs if figure.name in a and b.get(figure.name)]
        if both:
            ratio = Spread.of_ratios([a for a, _ in both], [b for _, b in both])
            is_noise = len(both) < _MIN_ROUNDS or ratio.covers_one or abs(ratio.median - 1) < _NEGLIGIBLE
            found.append(PairedRatio(name=figure.name, ratio=ratio, is_noise=is_noise))
    return tuple(found)


@contextmanager
def measure_client_cost(rounds: Rounds, target: BenchTarget | None = None) -> Iterator[None]:
    """Add CPU time, wall time and tokens of the body to `rounds`."""
    cpu, wall, tokens = time.process_time(), time.perf_counter(), target.num_tokens if target else 0
    try:
        yield
    finally:
        rounds.cpu_seconds += time.process_time() - cpu
        rounds.wall_seconds += time.perf_counter() - wall
        rounds.num_tokens += target.num_tokens - tokens if target else 0
