"""Loads of the simulation, and their figures relative to an ideal.

The ideal of a burst is one padded pass over all its prompts, without a limit of its size, and then decode
steps of all rows.
"""

import random
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from math import exp

from mlxctl.engine.scheduling.model_queue import ModelCosts

from .simulation import Machine, Request, Simulation

Disturb = Callable[[int, float], float]

NUM_OUTPUT_TOKENS = 32
SMALL_TOKENS = 32
"""A pass below this size mostly reads weights."""

# Others of a burst are sent this long after the first one, which is being prefilled then.
_LATER_SECONDS = 0.001
# A stopped engine runs for this long on average, between stops.
_RUN_SECONDS = 0.1
_NUM_SHORT = 8
_NUM_STREAM_TOKENS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class BurstFigures:
    """Figures of a burst, all but the passes relative to the ideal.

    `slowest` and `mean` first token, `speed` in tokens/s of all rows, `work` in seconds of passes without
    disturbance. `smallest_pass` is in tokens, and `num_small_passes` are those below SMALL_TOKENS; neither
    counts the last pass over a prompt.
    """

    slowest: float
    mean: float
    speed: float
    work: float
    smallest_pass: int
    num_small_passes: int
    num_passes: int


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
    """Return that of a process which is stopped for a share of the time."""
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
    firsts = [request.tokens[0] - begun for request in requests]
    passes = simulation.passes[passes_before:]
    sizes = [each.num_tokens for each in passes if not each.is_rest]
    return BurstFigures(
        slowest=max(firsts) / first_token,
        mean=statistics.mean(firsts) / first_token,
        speed=all_tokens / (max(request.tokens[-1] for request in requests) - begun),
        work=sum(each.work for each in passes) / one_pass,
        smallest_pass=min(sizes or [each.num_tokens for each in passes]),
        num_small_passes=sum(size < SMALL_TOKENS for size in sizes),
        num_passes=len(passes),
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
    """Return the figures of 12 long prompts and an urgent short one.

    Each prompt takes a third of the memory for caches, so that the others wait.
    """
    simulation = Simulation(
        machine, costs=costs, memory_limit_bytes=memory_limit_bytes, enable_preemption=True
    )
    simulation.memory_wait_seconds = float("inf")
    room = memory_limit_bytes - costs.weights_bytes
    num_prompt_tokens = min(room // costs.kv_bytes_per_token // 3, 16_000) - 600
    requests = [
        simulation.ask(num_prompt_tokens, num_tokens=256, caller=f"caller {number % 3}")
        for number in range(12)
    ]
    simulation.run(until=lambda: any(len(request.tokens) > 16 for request in requests))
    urgent = simulation.ask(num_prompt_tokens // 8, num_tokens=32, caller="urgent", priority=-10)
    simulation.run()
    firsts = [request.ttft for request in requests]
    return MemoryFigures(
        num_refused=simulation.num_refused,
        num_interrupted=simulation.num_interrupted,
        most_held=simulation.most_held_bytes / memory_limit_bytes,
        mean_first_token=statistics.mean(firsts),
        slowest_first_token=max(firsts),
        urgent_first_token=urgent.ttft,
        seconds=simulation.now,
    )
