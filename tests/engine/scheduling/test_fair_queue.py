"""Order of prompts beside one that is being prefilled."""

import pytest

from mlxctl.engine.scheduling.fair_queue import FairQueue
from mlxctl.engine.scheduling.sequence import Sequence

from .test_scheduler import make_sequence


def begun(sequence_id: int, *, num_tokens: int, fairness_key: str = "") -> Sequence:
    sequence = make_sequence(sequence_id, num_tokens=num_tokens, fairness_key=fairness_key)
    sequence.prefill.restore(0)
    sequence.prefill.finish_pass(64)
    return sequence


@pytest.mark.parametrize(("caller", "share"), [("same", 0.25), ("served more", 0.5)])
def test_long_prompt_keeps_its_share_of_prefill_beside_short_ones(caller: str, share: float) -> None:
    fair = FairQueue(aging_seconds=2.0)
    long = begun(1, num_tokens=4000, fairness_key="same")
    fair.charge(make_sequence(2, fairness_key="served more"), 1_000_000)
    computed = {True: 0, False: 0}
    for number in range(3, 500):
        short = make_sequence(number, num_tokens=8, fairness_key=caller)
        next_one = fair.ranked([long, short], now=0.0)[0]
        num_tokens = 64 if next_one is long else 8
        fair.let_overtake(next_one, num_tokens)
        fair.overtake([long], next_one, num_tokens)
        computed[next_one is long] += num_tokens

    assert computed[True] / sum(computed.values()) == pytest.approx(share, abs=0.04)


@pytest.mark.parametrize(("num_tokens", "goes_first"), [(500, True), (600, False), (3000, False)])
def test_only_small_prompts_overtake_the_begun_one_of_a_less_served_caller(
    num_tokens: int, goes_first: bool
) -> None:
    fair = FairQueue(aging_seconds=2.0)
    long = begun(1, num_tokens=2000, fairness_key="modest")
    other = make_sequence(2, num_tokens=num_tokens, fairness_key="greedy")
    fair.charge(other, 1000)

    assert (fair.ranked([long, other], now=0.0)[0] is other) == goes_first


def test_idle_caller_earns_no_credit_beside_active_ones() -> None:
    fair = FairQueue(aging_seconds=2.0)
    busy = make_sequence(1, fairness_key="busy", arrived_at=0.0)
    late = make_sequence(2, fairness_key="late", arrived_at=1.0)
    fair.enter("busy", [])
    fair.charge(busy, 1000)
    fair.enter("late", ["busy"])

    assert fair.ranked([late, busy], now=1.5)[0] is busy
