"""Latency of requests beside each other, in simulated seconds on several machines."""

import random
import statistics

import pytest

from tests.engine.simulated_loads import p99, serve_alone
from tests.engine.simulation import Machine, Request, Simulation

# A small model on two cores, a medium one on a Mac, a large dense one with a high fixed cost.
CPU = Machine(
    pass_fixed=0.0045, pass_token=0.00022, step_fixed=0.004, step_row=0.0007, join_row=0.002, num_layers=6
)
MAC = Machine(
    pass_fixed=0.02, pass_token=0.0008, step_fixed=0.018, step_row=0.002, join_row=0.0005, num_layers=32
)
DENSE = Machine(pass_fixed=0.15, pass_token=0.004, step_fixed=0.15, step_row=0.002, num_layers=80)
# 70B parameters on a Mac: a prompt of 100 tokens takes longer than a slice.
SLOW = Machine(pass_fixed=0.15, pass_token=0.02, step_fixed=0.15, step_row=0.002, num_layers=80)
# 135M parameters in float32 on two cores.
REAL = Machine(pass_fixed=0.1, pass_token=0.0095, step_fixed=0.11, step_row=0.003, num_layers=30)
# Attention over a long context: its work for each token (5M parameters on two cores), or reading the context.
ATTENTION = Machine(pass_token=0.0002, pass_context=4e-7, pass_attention=4e-7, step_fixed=0.005, num_layers=6)
CONTEXT = Machine(pass_token=0.0005, pass_context=5e-6, pass_attention=1e-8, step_fixed=0.005, num_layers=6)
MACHINES = pytest.mark.parametrize("machine", [CPU, MAC, DENSE], ids=["cpu", "mac", "dense"])


def start_stream(simulation: Simulation) -> Request:
    """Start a stream that decodes for the rest of the simulation."""
    stream = simulation.ask(50, num_tokens=1_000_000)
    simulation.run(seconds=40 * (simulation.machine.step_fixed + simulation.machine.step_row))
    return stream


def idle_gap(stream: Request) -> float:
    return statistics.median(stream.gaps(before=stream.tokens[-1]))


@MACHINES
@pytest.mark.parametrize("num_prompt_tokens", [100, 345])
@pytest.mark.parametrize("num_streams", [0, 1, 20], ids=["fresh", "after a stream", "after many"])
def test_burst_is_prefilled_nearly_as_fast_as_in_one_pass(
    machine: Machine, num_prompt_tokens: int, num_streams: int
) -> None:
    simulation = Simulation(machine)
    serve_alone(simulation, num_streams)

    # The other requests reach the engine after the first one's prefill.
    requests = [simulation.ask(num_prompt_tokens, num_tokens=256)]
    simulation.run(until=lambda: simulation.num_decoding > 0)
    requests += [simulation.ask(num_prompt_tokens, num_tokens=256) for _ in range(15)]
    slowest = simulation.run_first(requests)

    one_pass = (
        machine.pass_fixed
        + 16 * num_prompt_tokens * machine.pass_token
        + machine.step_fixed
        + 16 * machine.step_row
    )
    assert slowest < 1.45 * one_pass


@MACHINES
def test_rows_of_a_burst_wait_after_their_first_token(machine: Machine) -> None:
    simulation = Simulation(machine)
    serve_alone(simulation, 2)

    requests = [simulation.ask(1800, num_tokens=64)]
    simulation.run(until=lambda: simulation.num_decoding > 0)
    requests += [simulation.ask(1800, num_tokens=64) for _ in range(3)]
    slowest = simulation.run_first(requests)

    work = sum(machine.pass_seconds(1800) + machine.step_fixed + machine.step_row for _ in range(4))
    assert slowest < 1.1 * work
    assert len(requests[0].tokens) <= 2


@MACHINES
def test_answer_to_a_short_prompt_does_not_wait_for_a_longer_one_of_its_burst(machine: Machine) -> None:
    simulation = Simulation(machine)
    serve_alone(simulation, 2)

    long, short = simulation.ask(2000, num_tokens=64), simulation.ask(50, num_tokens=1000)
    simulation.run_first([long])

    idle = machine.step_fixed + machine.step_row
    assert statistics.median(short.gaps()) <= 4 * idle
    assert max(short.gaps()) <= 8 * idle


@MACHINES
def test_stream_does_not_wait_for_a_burst(machine: Machine) -> None:
    simulation = Simulation(machine)
    serve_alone(simulation, 2)
    stream = start_stream(simulation)
    begun = simulation.now

    simulation.run_first([simulation.ask(1800, num_tokens=64) for _ in range(4)])

    assert max(stream.gaps(after=begun)) <= 12 * idle_gap(stream)


@pytest.mark.parametrize("stream", [False, True], ids=["alone", "beside a stream"])
@pytest.mark.parametrize("num_prompt_tokens", [370, 8000])
@pytest.mark.parametrize(
    ("slowness", "sigma", "stopped"), [(4, 0.4, 0.0), (8, 0.8, 0.0), (1, 0.0, 0.8)], ids=["4x", "8x", "stops"]
)
def test_slow_noisy_and_stopped_machines_keep_large_passes(
    slowness: float, sigma: float, stopped: float, num_prompt_tokens: int, stream: bool
) -> None:
    source = random.Random(1)

    def disturb(_: int, seconds: float) -> float:
        stops = int(seconds / 0.05 + source.random()) * 0.05 / (1 - stopped) if stopped else 0.0
        return seconds * slowness * source.lognormvariate(0, sigma) + stops

    simulation = Simulation(REAL, disturb=disturb)
    if stream:
        start_stream(simulation)
    num_before = len(simulation.passes)
    simulation.run_first([simulation.ask(num_prompt_tokens, num_tokens=2)])

    assert min(each.num_tokens for each in simulation.passes[num_before:]) >= 32


@pytest.mark.parametrize("num_prompt_tokens", [700, 8000])
@pytest.mark.parametrize("num_callers", [1, 8])
def test_prompts_of_a_burst_on_a_slow_machine_end_one_after_the_other(
    num_callers: int, num_prompt_tokens: int
) -> None:
    simulation = Simulation(SLOW)

    requests = [
        simulation.ask(num_prompt_tokens, num_tokens=64, caller=f"caller {number % num_callers}")
        for number in range(8)
    ]
    simulation.run_first(requests)

    # A prompt takes as long as others need to age.
    ttfts = sorted(request.ttft for request in requests)
    assert ttfts[3] < 0.6 * ttfts[-1]


def test_prompts_of_nearly_the_measured_size_are_batched() -> None:
    # 8B parameters on a Mac: four prompts take longer than a slice.
    simulation = Simulation(Machine(pass_fixed=0.025, pass_token=0.0014, step_fixed=0.025, num_layers=36))
    serve_alone(simulation, 1)

    requests = [simulation.ask(101 + number, num_tokens=256) for number in range(16)]
    num_before = len(simulation.passes)
    simulation.run_first(requests)

    assert len(simulation.passes[num_before:]) <= 6


def test_backlog_of_one_caller_does_not_keep_another_waiting() -> None:
    simulation = Simulation(MAC)
    backlog = [simulation.ask(8000, num_tokens=64, caller="batch") for _ in range(8)]
    simulation.run(seconds=1)

    chat = simulation.ask(8000, num_tokens=64, caller="chat")
    simulation.run_first([*backlog, chat])

    # Only the prompt that had begun is finished before.
    assert sorted([*backlog, chat], key=lambda request: request.tokens[0]).index(chat) == 1


@MACHINES
@pytest.mark.parametrize("num_prompt_tokens", [100, 345])
def test_burst_beside_stream_keeps_gaps_below_twelve_steps(machine: Machine, num_prompt_tokens: int) -> None:
    simulation = Simulation(machine)
    serve_alone(simulation, 2)
    stream = start_stream(simulation)
    idle, begun = idle_gap(stream), simulation.now

    simulation.run_first([simulation.ask(num_prompt_tokens, num_tokens=64) for _ in range(16)])

    assert max(stream.gaps(after=begun)) <= 12 * idle


@MACHINES
def test_long_prompt_beside_stream_keeps_gaps_below_four_steps(machine: Machine) -> None:
    simulation = Simulation(machine)
    serve_alone(simulation, 2)
    stream = start_stream(simulation)
    idle, begun = idle_gap(stream), simulation.now

    long = simulation.ask(8000, num_tokens=2)
    simulation.run_first([long])

    assert p99(stream.gaps(after=begun)) <= 4 * idle


@pytest.mark.parametrize(("share_of_slow_passes", "at_most"), [(0.0, 4), (0.1, 5)])
@pytest.mark.parametrize("machine", [ATTENTION, CONTEXT, DENSE], ids=["attention", "context", "dense"])
def test_long_prompt_beside_stream_takes_few_times_as_long_as_alone(
    machine: Machine, share_of_slow_passes: float, at_most: int
) -> None:
    source, slow = random.Random(1), 10
    simulation = Simulation(
        machine, disturb=lambda _, seconds: seconds * (slow if source.random() < share_of_slow_passes else 1)
    )
    serve_alone(simulation, 2)
    start_stream(simulation)

    seconds = simulation.run_first([simulation.ask(8000, num_tokens=2)])

    alone = sum(machine.pass_seconds(500, context=start) for start in range(0, 8000, 500))
    assert seconds < at_most * alone * (1 + share_of_slow_passes * (slow - 1))


def test_passes_do_not_shrink_where_reading_the_context_takes_longest() -> None:
    simulation = Simulation(CONTEXT)
    serve_alone(simulation, 2)
    start_stream(simulation)

    seconds = simulation.run_first([simulation.ask(16_000, num_tokens=2)])

    assert seconds < 5 * sum(CONTEXT.pass_seconds(500, context=start) for start in range(0, 16_000, 500))


@MACHINES
@pytest.mark.parametrize("num_long", [1, 5])
def test_short_request_does_not_wait_for_long_prompts(machine: Machine, num_long: int) -> None:
    simulation = Simulation(machine)
    serve_alone(simulation, 2)
    idle = simulation.run_first([simulation.ask(20, num_tokens=6)])
    simulation.run()
    waiting = [simulation.ask(20_000, num_tokens=2) for _ in range(num_long)]
    # Those that have not begun wait much longer than the short request.
    simulation.run(seconds=max(2 * idle, machine.pass_seconds(5000)))

    beside = simulation.run_first([simulation.ask(20, num_tokens=6)])

    assert beside <= 5 * idle
    simulation.run_first(waiting)


def test_long_prompt_is_prefilled_while_short_ones_keep_arriving() -> None:
    simulation = Simulation(MAC)
    serve_alone(simulation, 2)
    long = simulation.ask(8000, num_tokens=2)

    for _ in range(400):
        simulation.run_first([simulation.ask(100, num_tokens=1) for _ in range(3)])

    assert long.ttft < 12 * MAC.pass_seconds(8000)


def test_overdue_prompt_lengthens_passes_until_prefilled() -> None:
    patient, hurried = (Simulation(CPU, target_ttft_ms=ms) for ms in (1e6, 50.0))
    slowest = []
    for simulation in (patient, hurried):
        serve_alone(simulation, 2)
        start_stream(simulation)
        slowest.append(simulation.run_first([simulation.ask(345, num_tokens=64) for _ in range(16)]))

    assert slowest[1] < 0.8 * slowest[0]


@pytest.mark.parametrize("gap", [0.02, 0.06])
def test_gaps_stay_within_configured_target(gap: float) -> None:
    simulation = Simulation(CPU, target_gap_ms=1000 * gap, target_ttft_ms=0.0)
    serve_alone(simulation, 2)
    stream, begun = start_stream(simulation), simulation.now

    simulation.run_first([simulation.ask(345, num_tokens=64) for _ in range(4)])

    assert p99(stream.gaps(after=begun)) <= 1.25 * gap


def test_single_delays_do_not_count_as_slow_machine() -> None:
    steady = Simulation(CPU)
    stumbling = Simulation(CPU, disturb=lambda number, seconds: 20 * seconds if number % 10 == 3 else seconds)
    num_passes = []
    for simulation in (steady, stumbling):
        serve_alone(simulation, 3)
        begun = len(simulation.batches)
        simulation.run_first([simulation.ask(100, num_tokens=64) for _ in range(16)])
        num_passes.append(sum(batch.phase == "prefill" for batch, _ in simulation.batches[begun:]))

    assert num_passes[1] <= num_passes[0] + 2


def test_slower_machine_keeps_gap_bound() -> None:
    simulation = Simulation(CPU, disturb=lambda number, seconds: 4 * seconds if number > 200 else seconds)
    serve_alone(simulation, 3)
    stream = start_stream(simulation)
    simulation.run(seconds=1)
    idle, begun = statistics.median(stream.gaps(after=stream.tokens[-20])), simulation.now

    simulation.run_first([simulation.ask(8000, num_tokens=2)])

    assert p99(stream.gaps(after=begun + 4)) <= 4 * idle


def test_noisy_machine_hardly_lengthens_gaps() -> None:
    source, ratios = random.Random(1), []
    slowness = [1.0]

    def disturb(_: int, seconds: float) -> float:
        if source.random() < 0.02:
            slowness[0] = source.choice([1.0, 1.0, 1.0, 3.0, 5.0])
        return seconds * slowness[0] * source.uniform(1, 1.5) * source.choice([1] * 15 + [6])

    for _ in range(5):
        simulation = Simulation(CPU, disturb=disturb)
        serve_alone(simulation, 4)
        stream = start_stream(simulation)
        simulation.run(seconds=2)
        idle, begun = idle_gap(stream), simulation.now
        simulation.run_first([simulation.ask(8000, num_tokens=2)])
        ratios.append(statistics.median(stream.gaps(after=begun)) / idle)

    assert statistics.median(ratios) <= 5
