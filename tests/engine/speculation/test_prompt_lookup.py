"""Prompt lookup finds the longest earlier occurrence of the last tokens."""

import statistics
import sys
from array import array
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxctl.engine.scheduling.sequence import Sequence
from mlxctl.engine.speculation.policy.draft_counts import DraftCounts
from mlxctl.engine.speculation.policy.gate import SpeculationGate
from mlxctl.engine.speculation.policy.prompt_lookup import PromptLookup, TokenHistory
from mlxctl.engine.speculation.policy.speculator import Speculator
from mlxctl.ir import SamplingParams


def make_row(prompt: list[int], output: list[int]) -> Sequence:
    row = Sequence(
        sequence_id=1,
        model="m",
        prompt_token_ids=array("I", prompt),
        sampling=SamplingParams(),
        stop_token_ids=frozenset(),
        max_tokens=100,
    )
    row.output_token_ids += output
    return row


def longest_match(tokens: list[int]) -> int:
    """Length of the longest suffix that occurs earlier as well.

    It has 3 to 32 tokens.
    """
    return max(
        (
            length
            for length in range(3, min(32, len(tokens) - 1) + 1)
            for end in range(length, len(tokens))
            if tokens[end - length : end] == tokens[-length:]
        ),
        default=0,
    )


@given(
    prompt=st.lists(st.integers(0, 3), min_size=1, max_size=30),
    output=st.lists(st.integers(0, 3), max_size=30),
)
def test_match_equals_that_of_a_search(prompt: list[int], output: list[int]) -> None:
    history = TokenHistory(array("I", prompt))
    for num in range(len(output) + 1):
        history.follow(output[:num])
    tokens = prompt + output
    end, length = history.longest_match()
    assert tokens[end - length : end] == tokens[len(tokens) - length :]
    # Of many occurrences only the latest ones are compared.
    assert (length > 0) == (longest_match(tokens) > 0)
    if len(tokens) < 12:
        assert length == longest_match(tokens)


def test_draft_continues_the_longest_of_two_matches() -> None:
    lookup = PromptLookup()
    row = make_row([9, 8, 1, 2, 3, 4, 50, 51, 7, 2, 3, 4, 60, 61, 9, 9], [8, 1, 2, 3, 4])
    assert lookup.draft([row], [2])[0].token_ids == (50, 51)
    assert lookup.draft([row], [0])[0].token_ids == ()


def test_draft_of_a_repeated_cycle_continues_it() -> None:
    row = make_row([1, 2, 3, 50, 60, 50, 60, 50, 60], [50])
    assert PromptLookup().draft([row], [5])[0].token_ids == (60, 50, 60, 50, 60)


def test_preempted_row_is_drafted_for_as_before() -> None:
    row = make_row([1, 2, 3, 50, 60, 9], [1, 2, 3])
    before = PromptLookup().draft([row], [2])[0]
    row.append_output_to_prompt()
    assert PromptLookup().draft([row], [2])[0] == before
    assert before.token_ids == (50, 60)


@pytest.mark.parametrize("output", [[], [5, 6], [11, 12, 13, 14]])
def test_no_draft_without_an_earlier_occurrence(output: list[int]) -> None:
    assert PromptLookup().draft([make_row([1, 2, 3, 4, 5, 6, 7, 8], output)], [7])[0].token_ids == ()


@pytest.mark.parametrize(("token", "is_right"), [(50, True), (99, False)])
def test_draft_for_a_token_in_flight_is_tested_by_it(token: int, is_right: bool) -> None:
    row, gate = make_row([1, 2, 3, 50, 60, 70, 9], [1, 2, 3]), SpeculationGate()
    speculator = Speculator([PromptLookup()], {"lookup": gate}, DraftCounts())
    for _ in range(8):
        gate.observe_plain(1, 10, 0.01)
    row.num_sampled_tokens = 4
    assert speculator.plan([row]) is not None
    before = gate.rate(0).rate
    row.output_token_ids.append(token)
    speculator.plan([row])
    assert (gate.rate(0).rate > before) is is_right


def test_no_draft_is_longer_than_the_setting() -> None:
    row, gate = make_row([*range(1, 40)], [1, 2, 3]), SpeculationGate()
    speculator = Speculator([PromptLookup()], {"lookup": gate}, DraftCounts(), max_draft_tokens=2)
    for _ in range(8):
        gate.observe_plain(1, 10, 0.01)
    row.num_sampled_tokens = 3

    plan = speculator.plan([row])

    assert plan is not None
    assert plan.drafts[0].token_ids == (4, 5)


def test_step_without_a_match_costs_few_calls() -> None:
    random = Random(1)
    prompt = [random.randrange(50_000) for _ in range(2000)]
    row, lookup, gate = make_row(prompt, []), PromptLookup(), SpeculationGate()
    speculator = Speculator([lookup], {"lookup": gate}, DraftCounts())
    for _ in range(8):
        gate.observe_plain(1, 2000, 0.01)
    gate.observe_block(1, 2000, num_draft_tokens=7, num_emitted=8, seconds=0.012)
    row.max_tokens = 1000

    def calls_of_a_step() -> int:
        row.output_token_ids.append(random.randrange(50_000))
        row.num_sampled_tokens += 1
        calls = 0

        def count(_frame: object, event: str, _argument: object) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        sys.setprofile(count)
        try:
            speculator.plan([row])
        finally:
            sys.setprofile(None)
        return calls

    calls_of_a_step()
    # Searching with numpy, and comparing costs at each step, takes more than twice as many.
    assert statistics.median(calls_of_a_step() for _ in range(100)) < 38


def test_longer_matches_are_stronger_evidence() -> None:
    run = list(range(20, 45))
    kinds = [
        PromptLookup().draft([make_row([*run, 99, 98], run[25 - length :])], [1])[0].evidence
        for length in (3, 5, 9, 17)
    ]
    assert kinds == [0, 1, 2, 3]
