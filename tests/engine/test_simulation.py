"""The simulation, and what holds in it on all Macs."""

import pytest

from mlxctl.ir.tokens import pack

from .simulated_loads import (
    answers_beyond_memory,
    burst,
    long_prompt_beside_streams,
    noise,
    prompts_beyond_memory,
    stops,
)
from .simulated_machine import Machine
from .simulated_macs import PROFILES, RANDOM_5M, SMOLLM2, Profile, llama_7b, profile
from .simulation import Simulation

# Tokens/s of LLaMA 7B Q4_0 in llama.cpp's discussion 4167 (M5: pull request 16634).
PUBLISHED_DECODE_SPEED = {
    ("M1", 8): 14.2,
    ("M1 Max", 64): 61.2,
    ("M2", 8): 21.9,
    ("M2 Ultra", 192): 94.3,
    ("M3 Max", 128): 66.3,
    ("M3 Ultra", 512): 92.1,
    ("M4 Pro", 48): 50.7,
    ("M4 Max", 128): 83.1,
    ("M5", 16): 26.6,
}
SMALL_MAC = profile("M4", 16, "Qwen3-8B-8bit")


@pytest.mark.parametrize(("chip", "memory_gib"), PUBLISHED_DECODE_SPEED)
def test_decode_speed_of_a_mac_is_near_the_published_one(chip: str, memory_gib: int) -> None:
    machine = llama_7b(chip, memory_gib).machine

    assert 1 / machine.step_seconds([[64]]) == pytest.approx(
        PUBLISHED_DECODE_SPEED[chip, memory_gib], rel=0.2
    )


def test_reference_prompt_takes_as_long_as_published() -> None:
    assert 512 / llama_7b("M4 Max", 128).machine.pass_seconds(512) == pytest.approx(886, rel=0.02)


def test_experts_are_read_once_by_many_tokens() -> None:
    machine = Machine(all_experts=1.0, expert_share=0.1, pass_token=0.0, pass_fixed=0.0)

    assert machine.pass_seconds(1) == pytest.approx(0.1)
    assert machine.pass_seconds(100) == pytest.approx(1.0, rel=0.001)


@pytest.mark.parametrize("disturb", [noise(0.8, 1), stops(0.8, 1)], ids=["noise", "stops"])
def test_disturbance_never_changes_the_work_of_a_given_pass(disturb: object) -> None:
    simulation = Simulation(SMOLLM2, disturb=disturb)  # type: ignore[arg-type]
    simulation.ask(300, num_tokens=2)
    simulation.run()

    for each in simulation.passes:
        assert each.work == pytest.approx(SMOLLM2.pass_seconds(each.num_tokens), rel=0.01)


def test_process_stopped_four_fifths_of_the_time_takes_five_times_as_long() -> None:
    disturb = stops(0.8, 1)

    assert sum(disturb(0, 0.05) for _ in range(20_000)) == pytest.approx(5 * 1000, rel=0.05)


def test_same_seed_gives_the_same_figures() -> None:
    figures = [burst(RANDOM_5M, 4, 370, disturb=noise(0.4, 3)) for _ in range(2)]

    assert figures[0] == figures[1]


def test_pass_in_turns_computes_all_its_layers() -> None:
    machine = Machine(num_layers=31, turn_fixed=0.0)
    simulation = Simulation(machine)
    simulation.ask(50, num_tokens=1000)
    simulation.run(until=lambda: simulation.num_decoding > 0)

    simulation.ask(2000, num_tokens=2)
    simulation.run(until=lambda: simulation.num_decoding > 1)

    beside = [each for each in simulation.passes if each.num_rows]
    assert sum(batch.turn is not None for batch, _ in simulation.batches) > 2 * len(beside)
    assert sum(each.work for each in beside) == pytest.approx(
        sum(machine.pass_seconds(each.num_tokens) for each in beside)
    )


def test_shared_prefix_is_computed_once() -> None:
    simulation = Simulation(RANDOM_5M)
    prefix = pack(range(2000))

    requests = [simulation.ask(2100, num_tokens=4, begins_with=prefix) for _ in range(8)]
    simulation.run()

    assert all(len(request.tokens) == 4 for request in requests)
    assert sum(each.num_tokens for each in simulation.passes) < 1.1 * (2000 + 8 * 100)


@pytest.mark.parametrize("mac", [*PROFILES[::5], PROFILES[-1]], ids=lambda mac: mac.name)
def test_streams_keep_gaps_of_four_steps_beside_a_long_prompt(mac: Profile) -> None:
    figures = long_prompt_beside_streams(mac.machine, 8000, num_streams=4, costs=mac.costs)

    assert figures.p99_gap <= 4
    assert figures.first_token <= 3


def test_prompts_beyond_memory_wait_within_the_limit() -> None:
    figures = prompts_beyond_memory(SMALL_MAC.machine, SMALL_MAC.costs, SMALL_MAC.memory_limit_bytes)

    assert figures.num_refused == 0
    assert figures.most_held <= 1
    # The urgent one gets the place of a row.
    assert figures.num_interrupted > 0
    assert figures.urgent_first_token < 0.3 * figures.mean_first_token


def test_answers_beyond_memory_all_end() -> None:
    figures = answers_beyond_memory(SMALL_MAC.machine, SMALL_MAC.costs, SMALL_MAC.memory_limit_bytes)

    assert figures.num_refused == figures.num_unfinished == 0
