"""Bars of the prefill policy on simulated Macs and disturbed machines."""

from collections.abc import Callable

import pytest

from .simulated_loads import (
    DISTURBED_WORK,
    Disturb,
    burst,
    noise,
    stops,
)
from .simulated_machine import Machine
from .simulated_macs import RANDOM_5M, SMOLLM2, Profile, profile

M4_MAX = profile("M4 Max", 128, "Qwen3-8B-4bit")
MACS = (
    profile("M1", 8, "Qwen3-4B-4bit"),
    profile("M1 Max", 64, "Qwen3-30B-A3B-4bit"),
    profile("M3 Pro", 36, "Qwen3-32B-4bit"),
    profile("M3 Max", 128, "Llama-3.3-70B-Instruct-4bit"),
    M4_MAX,
    profile("M5 Ultra", 512, "gpt-oss-120b-MXFP4-Q4"),
)
MACHINES = {"smollm2": SMOLLM2, "5m": RANDOM_5M, "m4 max": M4_MAX.machine}
DISTURBANCES: dict[str, tuple[float, Callable[[int], Disturb] | None]] = {
    "4x slower": (4.0, None),
    "8x slower": (8.0, None),
    "sigma 0.4": (1.0, lambda seed: noise(0.4, seed)),
    "sigma 0.8": (1.0, lambda seed: noise(0.8, seed)),
    "8x slower, sigma 0.8": (8.0, lambda seed: noise(0.8, seed)),
    "stopped": (1.0, lambda seed: stops(0.8, seed)),
}


@pytest.mark.parametrize("num_prompt_tokens", [40, 370, 1500, 2000])
@pytest.mark.parametrize("mac", MACS, ids=lambda mac: mac.name)
def test_burst_on_a_mac_is_served_nearly_as_well_as_possible(mac: Profile, num_prompt_tokens: int) -> None:
    figures = {
        f"{num} at once" if at_once else f"{num}": burst(
            mac.machine, num, num_prompt_tokens, comes_at_once=at_once, costs=mac.costs
        )
        for num, at_once in ((1, True), (2, False), (4, False), (4, True), (8, False), (16, False))
    }

    missed = {
        name: f"slowest {each.slowest / each.best_slowest:.2f}, tokens/s {each.speed / each.best_speed:.2f}, "
        f"work {each.work / each.best_work:.2f}"
        for name, each in figures.items()
        if not each.meets_bars
    }
    assert missed == {}, "of the best within reach"


@pytest.mark.parametrize("num_prompt_tokens", [370, 8000])
@pytest.mark.parametrize("disturbance", DISTURBANCES)
@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_disturbed_machine_makes_no_small_passes(
    machine: Machine, disturbance: str, num_prompt_tokens: int
) -> None:
    factor, create = DISTURBANCES[disturbance]
    figures = [
        burst(
            machine.slower(factor),
            1,
            num_prompt_tokens,
            num_before=num_before,
            **({"disturb": create(seed)} if create else {}),
        )
        for seed in range((5 if num_prompt_tokens < 1000 else 1) if create else 1)
        for num_before in (0, 2)
    ]

    assert max(each.num_small_passes for each in figures) == 0
    assert max(each.work for each in figures) <= DISTURBED_WORK
