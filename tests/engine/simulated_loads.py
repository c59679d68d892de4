"""Loads of the simulation, and their figures relative to an ideal.

The ideal of a burst is one padded pass over all its prompts, and then decode steps of all rows. It is out of
reach where the others come while the first prompt is prefilled, and above the engine's largest pass. So each
figure comes with the best one within reach: that of the first prompt alone, and then of as many whole prompts
in a pass as its limit allows.
"""

import random
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from math import exp

from mlxctl.engine.scheduling.model_queue import ModelCosts

from .simulated_machine import Machine
from .simulation import MAX_PASS_TOKENS, Request, Simulation

Disturb = Callable[[int, float], float]

NUM_OUTPUT_TOKENS = 32
SMALL_TOKENS = 32
"""A pass below this size mostly reads weights."""

DISTURBED_WORK = 1.3
"""Work that a slow, noisy or stopped machine may take at most, relative to one pass."""

# Others of a burst are sent this long after the first one, which is being prefilled then.
_LATER_SECONDS = 0.001
# A stopped engine runs for this long on average, between stops.
_RUN_SECONDS = 0.1
_NUM_SHORT = 8
_NUM_STREAM_TOKENS = 40
# Bound of that room, so that a large Mac takes no longer to simulate than a small one.
_MAX_ROOM_TOKENS = 24_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BurstFigures:
    """Figures of a burst, all but the passes relative to the ideal.

    `slowest` and `mean` first token, `speed` in tokens/s of all rows, `work` in seconds of passes without
    disturbance. `best_slowest`, `best_speed` and `best_work` are within reach. `smallest_pass` is in tokens,
    and `num_small_passes` are those below SMALL_TOKENS; neither counts the last pass over a prompt.
    """

    slowest: float
    mean: float
    speed: float
    work: float
    best_slowest: float
    best_speed: float
    best_work: float
    smallest_pass: int
    num_small_passes: int
    num_passes: int

    @property
    def meets_bars(self) -> bool:
        """Whether the burst is served nearly as well as possible.

        That is 5 % more work, 5 % later first tokens and 2 % fewer tokens/s.
        """
        return (
            self.work <= 1.05 * self.best_work
            and self.slowest <= 1.05 * self.best_slowest
            and self.speed >= 0.98 * self.best_speed
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LongPromptFigures:
    """Figures of a long prompt beside streams.

    `p99_gap` and `largest_gap` of the streams are in their usual gaps, `largest_gap_seconds` in seconds;
    `first_token` is relative to the prompt alone, in one pass.
    """

    p99_gap: float
    largest_gap: float
    largest_gap_seconds: float
    first_token: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFigures:
    """Figures of prompts that do not fit into memory together.

    `most_held` bytes are relative to the limit; times are in seconds.
    """

    num_refused: int
    num_unfinished: int
    num_interrupted: int
    most_held: float
    mean_first_token: float
    slowest_first_token: float
    urgent_first_token: float
    seconds: float


def noise(sigma: float, seed: int) -> Disturb:
    """Return a lognormal disturbance with median 1."""
    source = random.Random(seed)
    return lambda _, seconds: seconds * exp(source.gauss(0.0, sigma))


def stops(share: float, seed: int) -> Disturb:
    """Return the disturbance of a process that is stopped sometimes.

    `share` is the part of the time for which it is stopped.
    """
    source = random.Random(seed)
    stop_seconds = _RUN_SECONDS * share / (1 - share)
    remaining = source.expovariate(1 / _RUN_SECONDS)

    def disturb(_: int, seconds: float) -> float:
        nonlocal remaining
        total = seconds
        while seconds > remaining:
            seconds -= remaining
            total += source.expovariate(1 / stop_seconds)
            remaining = source.expovariate(1 / _RUN_SECONDS)
        remaining -= seconds
        return total

    return disturb


def serve_alone(simulation: Simulation, num: int) -> None:
    """Serve single streams one after the other."""
    for _ in range(num):
        simulation.ask(100, num_tokens=64)
        simulation.run()


def start_stream(simulation: Simulation) -> Request:
    """Start a stream that decodes for the rest of the simulation."""
    stream = simulation.ask(50, num_tokens=1_000_000)
    simulation.run(until=lambda: len(stream.tokens) >= _NUM_STREAM_TOKENS)
    return stream


def p99(values: list[float]) -> float:
    """Return the 99th percentile."""
    return sorted(values)[int(0.99 * len(values))]


def burst(
    machine: Machine,
    num_prompts: int,
    num_prompt_tokens: int,
    *,
    comes_at_once: bool = False,
    num_before: int = 2,
    costs: ModelCosts | None = None,
    disturb: Disturb = lambda _, seconds: seconds,
    slowness: float = 1.0,
) -> BurstFigures:
    """Return the figures of a burst, after `num_before` single requests.

    Without `comes_at_once`, the others come while the first is prefilled. A disturbed machine is `slowness`
    times slower on average.
    """
    simulation = Simulation(machine, disturb=disturb, costs=costs)
    serve_alone(simulation, num_before)
    begun, passes_before = simulation.now, len(simulation.passes)
    requests = [
        simulation.ask(
            num_prompt_tokens,
            num_tokens=NUM_OUTPUT_TOKENS,
            delay=0.0 if comes_at_once or not number else _LATER_SECONDS,
        )
        for number in range(num_prompts)
    ]
    simulation.run()
    one_pass = machine.pass_seconds(num_prompts * (num_prompt_tokens - 1), num_prompts=num_prompts)
    steps = [
        machine.step_seconds([[num_prompt_tokens + number] * num_prompts])
        for number in range(NUM_OUTPUT_TOKENS)
    ]
    first_token, all_tokens = (slowness * (one_pass + taken) for taken in (steps[0], sum(steps)))
    at_best = _best_seconds(
        machine, num_prompts, num_prompt_tokens - 1, first_alone=num_prompts > 1 and not comes_at_once
    )
    firsts = [request.tokens[0] - begun for request in requests]
    passes = simulation.passes[passes_before:]
    sizes = [each.num_tokens for each in passes if not each.is_rest]
    return BurstFigures(
        slowest=max(firsts) / first_token,
        mean=statistics.mean(firsts) / first_token,
        speed=all_tokens / (max(request.tokens[-1] for request in requests) - begun),
        work=sum(each.work for each in passes) / one_pass,
        best_slowest=(at_best + steps[0]) / (one_pass + steps[0]),
        best_speed=(one_pass + sum(steps)) / (at_best + sum(steps)),
        best_work=at_best / one_pass,
        smallest_pass=min(sizes or [each.num_tokens for each in passes]),
        num_small_passes=sum(size < SMALL_TOKENS for size in sizes),
        num_passes=len(passes),
    )


def _best_seconds(machine: Machine, num_prompts: int, num_tokens: int, *, first_alone: bool) -> float:
    """Return the least seconds of passes over prompts of `num_tokens`."""
    whole = max(1, MAX_PASS_TOKENS // num_tokens)
    rest = num_prompts - first_alone
    together = [1] * first_alone + [min(whole, rest - start) for start in range(0, rest, whole)]
    parts = range(0, num_tokens, MAX_PASS_TOKENS)
    return sum(
        machine.pass_seconds(num * min(MAX_PASS_TOKENS, num_tokens - start), context=start, num_prompts=num)
        for num in together
        for start in parts
    )


def long_prompt_beside_streams(
    machine: Machine, num_prompt_tokens: int, *, num_streams: int, costs: ModelCosts | None = None
) -> LongPromptFigures:
    """Return the figures of a long prompt beside streams."""
    simulation = Simulation(machine, costs=costs)
    serve_alone(simulation, 2)
    streams = [start_stream(simulation) for _ in range(num_streams)]
    begun = simulation.now
    simulation.run(until=lambda: len(streams[0].gaps(after=begun)) >= _NUM_STREAM_TOKENS)
    usual = statistics.median(streams[0].gaps(after=begun))
    begun = simulation.now
    first_token = simulation.run_first([simulation.ask(num_prompt_tokens, num_tokens=2)])
    gaps = [gap for stream in streams for gap in stream.gaps(after=begun)]
    alone = machine.pass_seconds(num_prompt_tokens - 1) + machine.step_seconds([[num_prompt_tokens]])
    return LongPromptFigures(
        p99_gap=p99(gaps) / usual,
        largest_gap=max(gaps) / usual,
        largest_gap_seconds=max(gaps),
        first_token=first_token / alone,
    )


def short_prompt_beside_long(
    machine: Machine, num_short: int, num_long: int, *, costs: ModelCosts | None = None
) -> float:
    """Return a short prompt's slowest first token, relative to an idle engine.

    It is sent at several times while a long prompt is prefilled.
    """
    simulation = Simulation(machine, costs=costs)
    serve_alone(simulation, 2)
    idle = simulation.run_first([simulation.ask(num_short, num_tokens=6)])
    simulation.run()
    simulation.ask(num_long, num_tokens=2)
    beside = []
    for _ in range(_NUM_SHORT):
        delay = (0.3 + 0.01 * len(beside)) * machine.pass_seconds(num_long) / _NUM_SHORT
        beside.append(simulation.run_first([simulation.ask(num_short, num_tokens=6, delay=delay)]))
    return max(beside) / idle


def prompts_beyond_memory(machine: Machine, costs: ModelCosts, memory_limit_bytes: int) -> MemoryFigures:
    """Return the figures of prompts that fill the memory four times.

    Each of 12 takes a third of the memory for caches, so that the others wait. An urgent prompt of the same
    size comes when the first one has begun to answer.
    """
    room = _room_tokens(costs, memory_limit_bytes)
    simulation = _limited(machine, costs, room)
    return _beyond_memory(simulation, num_prompts=12, num_prompt_tokens=room // 3 - 600, num_tokens=256)


def answers_beyond_memory(machine: Machine, costs: ModelCosts, memory_limit_bytes: int) -> MemoryFigures:
    """Return the figures of answers that outgrow the memory.

    All of 8 prompts fit into half of the memory for caches, and their answers take twice all of it.
    """
    room = _room_tokens(costs, memory_limit_bytes)
    simulation = _limited(machine, costs, room)
    return _beyond_memory(simulation, num_prompts=8, num_prompt_tokens=room // 16, num_tokens=room // 4)


def _room_tokens(costs: ModelCosts, memory_limit_bytes: int) -> int:
    """Return the tokens that the caches beside the weights can hold."""
    return min((memory_limit_bytes - costs.weights_bytes) // costs.kv_bytes_per_token, _MAX_ROOM_TOKENS)


def _limited(machine: Machine, costs: ModelCosts, room_tokens: int) -> Simulation:
    """Return a simulation whose caches have room for so many tokens."""
    limit_bytes = costs.weights_bytes + room_tokens * costs.kv_bytes_per_token
    return Simulation(machine, costs=costs, memory_limit_bytes=limit_bytes, enable_preemption=True)


def _beyond_memory(
    simulation: Simulation, *, num_prompts: int, num_prompt_tokens: int, num_tokens: int
) -> MemoryFigures:
    simulation.memory_wait_seconds = float("inf")
    requests = [
        simulation.ask(num_prompt_tokens, num_tokens=num_tokens, caller=f"caller {number % 3}")
        for number in range(num_prompts)
    ]
    simulation.run(until=lambda: any(len(request.tokens) > _NUM_STREAM_TOKENS for request in requests))
    urgent = simulation.ask(num_prompt_tokens, num_tokens=32, caller="urgent", priority=-10)
    simulation.run()
    firsts = [request.ttft for request in requests]
    return MemoryFigures(
        num_refused=simulation.num_refused,
        num_unfinished=sum(len(request.tokens) < num_tokens for request in requests),
        num_interrupted=simulation.num_interrupted,
        most_held=simulation.most_held,
        mean_first_token=statistics.mean(firsts),
        slowest_first_token=max(firsts),
        urgent_first_token=urgent.ttft,
        seconds=simulation.now,
    )
