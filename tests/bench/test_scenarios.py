"""Requests and samples of the scenarios on a server of known speed."""

import asyncio
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest

from mlxctl.bench.client import Stream
from mlxctl.bench.endpoint import ChatEndpoint
from mlxctl.bench.prompts import Prompts
from mlxctl.bench.scenarios import (
    Agents,
    Arrivals,
    Burst,
    Contention,
    Latency,
    Mixed,
    Prefix,
    Sample,
    Scenario,
    Speculation,
    Speech,
    Throughput,
    contention,
)
from mlxctl.bench.scenarios.throughput import decode_rate
from mlxctl.bench.target import BenchTarget
from mlxctl.inference.remote import RemoteModel
from tests.bench.fixed_rate_server import FixedRateServer, fixed_rate_server

SMALL: list[Scenario] = [
    Throughput(streams=(1, 2), answer_tokens=8, prompt_tokens=16),
    Latency(num_requests=2, prompt_tokens=16, answer_tokens=4),
    Prefix(prompt_tokens=32, answer_tokens=2),
    Agents(num_turns=2, num_agents=2, system_tokens=32, result_tokens=16, answer_tokens=2),
    Arrivals(rate=200.0, num_requests=4, prompt_tokens=32, answer_tokens=12),
    Burst(num_requests=3, prompt_tokens=16, answer_tokens=4),
    Contention(num_requests=2, prompt_tokens=32, answer_tokens=2, watch_seconds=0.05),
    Mixed(num_requests=4, num_clients=2, prompt_tokens=32, answer_tokens=12),
    Speculation(num_streams=2, document_tokens=32, answer_tokens=12),
]


def target_on(server: FixedRateServer) -> BenchTarget:
    listed = RemoteModel(name="fixed-rate", max_model_len=4096)
    return BenchTarget("A", "fixed-rate", ChatEndpoint.of(server.url), listed.name, listed)


def measure(scenario: Scenario, target: BenchTarget, key: str = "round 1") -> Sample:
    return asyncio.run(scenario.measure(target, Prompts(seed=1, nonce="n"), key))


@pytest.mark.parametrize("scenario", SMALL, ids=lambda scenario: scenario.name)
def test_samples_are_positive_and_declared_by_the_scenario(scenario: Scenario) -> None:
    with fixed_rate_server(pause_seconds=0.005) as server:
        sample = measure(scenario, target_on(server))
    names = [figure.name for figure in scenario.figures]
    assert len(set(names)) == len(names)
    assert set(sample) <= set(names)
    assert all(value > 0 for value in sample.values())
    assert {name for chart in scenario.charts for _, name in chart.bars} <= set(names)


@pytest.mark.parametrize("scenario", SMALL, ids=lambda scenario: scenario.name)
def test_rounds_start_with_different_texts(scenario: Scenario) -> None:
    with fixed_rate_server(pause_seconds=0.001) as server:
        target = target_on(server)
        measure(scenario, target, "round 1")
        first = {str(body["messages"][0]["content"]).split()[0] for body in server.bodies}
        server.bodies.clear()
        measure(scenario, target, "round 2")
    assert first.isdisjoint(str(body["messages"][0]["content"]).split()[0] for body in server.bodies)


def test_speech_is_measured_alone_at_once_and_beside_a_stream() -> None:
    scenario = Speech(num_requests=2, num_at_once=3, words=20, watch_seconds=0.1)
    with fixed_rate_server(pause_seconds=0.01) as server:
        target = replace(target_on(server), purpose="speech", chat_model="fixed-rate")
        sample = measure(scenario, target)
        asked = [body["input"] for body in server.bodies if "input" in body]
        alone = measure(scenario, replace(target, chat_model=None))
    assert set(sample) == {figure.name for figure in scenario.figures}
    assert all(value > 0 for value in sample.values())
    assert len(set(asked)) == 2 + 3 + 2
    assert all(len(text.split()) == 20 and text.endswith(".") for text in asked)
    assert {"gap_idle", "first_audio_beside_stream"}.isdisjoint(alone)


@dataclass
class RestartCounter:
    """Counts restarts; the server stays the same."""

    url: str
    num: int = field(default=0)

    async def restart(self) -> str:
        self.num += 1
        return self.url


def test_prefix_scenario_asks_cold_warm_and_after_a_restart() -> None:
    with fixed_rate_server() as server:
        target = target_on(server)
        target.restarter = restarts = RestartCounter(server.url)
        sample = measure(Prefix(prompt_tokens=64), target)
    cold, warm, between, restarted = (body["messages"][0]["content"] for body in server.bodies)
    shared = cold.partition("\n\n")[0]
    assert restarts.num == 1
    assert warm.startswith(shared)
    assert restarted.startswith(shared)
    assert not between.startswith(shared[:12])
    assert len({cold, warm, restarted}) == 3
    assert sample["speedup_restart"] == pytest.approx(sample["ttft_cold"] / sample["ttft_restart"])


def test_remote_server_is_not_restarted_with_a_note() -> None:
    with fixed_rate_server() as server:
        target = target_on(server)
        assert "ttft_restart" not in measure(Prefix(), target)
    assert any("not restarted" in note for note in target.notes)


def test_burst_runs_on_a_fresh_server_and_after_one_stream() -> None:
    with fixed_rate_server(pause_seconds=0.005) as server:
        target = target_on(server)
        target.restarter = restarts = RestartCounter(server.url)
        sample = measure(Burst(num_requests=4, prompt_tokens=16, answer_tokens=4), target)
    assert restarts.num == 1
    assert (
        len({str(body["messages"][0]["content"]) for body in server.bodies})
        == len(server.bodies)
        == 4 + 1 + 4
    )
    assert sample["ttft_p50"] <= sample["ttft_p95"] <= sample["ttft_slowest"]
    assert sample["fresh_tokens_per_second"] > 0


def test_speculation_asks_every_question_with_and_without_drafts() -> None:
    with fixed_rate_server(pause_seconds=0.001) as server:
        target = target_on(server)
        sample = measure(Speculation(num_streams=3, document_tokens=32, answer_tokens=8), target)
        asked = {
            on: [str(body["messages"]) for body in server.bodies if body["speculation"] is on]
            for on in (True, False)
        }
    assert set(asked[True]) == set(asked[False])
    assert len(asked[False]) == 3 + 3
    assert "accepted_share" not in sample
    assert any("--speculation" in note for note in target.notes)


def test_arrivals_do_not_wait_and_goodput_counts_timely_answers() -> None:
    scenario = Arrivals(
        rate=100.0, num_requests=8, prompt_tokens=16, answer_tokens=8, ttft_ms=200, token_ms=1000
    )
    patient = replace(scenario, ttft_ms=60_000, token_ms=60_000)
    with fixed_rate_server(pause_seconds=0.21) as server:
        late = measure(scenario, target_on(server))
        timely = measure(patient, target_on(server))
    assert (late["goodput"], timely["goodput"]) == (0, 1)
    # Sequentially, eight answers of eight tokens would take 13 seconds, so at most 4.8 a second.
    assert late["tokens_per_second"] > 6


def test_arrival_schedule_is_deterministic_and_keeps_its_rate() -> None:
    scenario = Arrivals(rate=5.0, num_requests=2000)
    schedule = scenario.schedule(seed=1)
    assert schedule == scenario.schedule(seed=1) != scenario.schedule(seed=2)
    assert len(schedule) / schedule[-1].after == pytest.approx(5.0, rel=0.1)


def test_agent_turns_extend_the_previous_turn() -> None:
    scenario = Agents(num_turns=3, num_agents=2, system_tokens=32, result_tokens=16, answer_tokens=2)
    with fixed_rate_server() as server:
        sample = measure(scenario, target_on(server))
    *turns, one, other = (body["messages"] for body in server.bodies)
    assert [len(messages) for messages in turns] == [2, 4, 6, 8]
    assert all(after[: len(before)] == before for before, after in pairwise(turns))
    assert all(body["tools"] for body in server.bodies)
    assert one[0] == other[0] != turns[0][0]
    assert one[1] != other[1]
    assert sample["turn_ttft_first"] == sample["turn_ttft_0"]


def test_rejected_tools_are_replayed_as_text() -> None:
    with fixed_rate_server(rejected_field="tools") as server:
        target = target_on(server)
        measure(Agents(num_turns=2, num_agents=1, system_tokens=32, result_tokens=16), target)
    assert sum("tools" in body for body in server.bodies) == 1
    assert {message["role"] for message in server.bodies[-2]["messages"]} == {"system", "user", "assistant"}
    assert any("plain text" in note for note in target.notes)


def test_cached_share_is_omitted_without_usage_details() -> None:
    with fixed_rate_server() as server:
        sample = measure(Agents(num_turns=1, num_agents=1, system_tokens=32), target_on(server))
    assert not [name for name in sample if "cached" in name]


def test_contention_notes_a_prefill_that_is_too_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(contention, "_HEAD_START_SECONDS", 60.0)
    with fixed_rate_server(pause_seconds=0.001) as server:
        target = target_on(server)
        sample = measure(Contention(num_requests=1, prompt_tokens=16, watch_seconds=0.05), target)
    assert set(sample) == {"ttft_idle", "ttft_beside_stream", "gap_idle"}
    assert any("--prompt-tokens" in note for note in target.notes)


def test_contention_measures_during_a_long_prefill() -> None:
    scenario = Contention(num_requests=2, prompt_tokens=1000, answer_tokens=2, watch_seconds=0.05)
    with fixed_rate_server(word_seconds=0.002) as server:
        sample = measure(scenario, target_on(server))
    assert set(sample) == {figure.name for figure in scenario.figures}
    # The prefill alone takes 1.5 seconds.
    assert sample["ttft_beside_prompt"] < 1.4


def test_contention_sends_all_long_prompts_at_once() -> None:
    scenario = Contention(
        num_requests=1, num_prompts=3, prompt_tokens=400, answer_tokens=2, watch_seconds=0.05
    )
    with fixed_rate_server(word_seconds=0.002) as server:
        sample = measure(scenario, target_on(server))
        long = [body for body in server.bodies if len(body["messages"][0]["content"].split()) > 200]
    # Beside a stream, and without one.
    assert len(long) == 2 * 3
    assert sample["ttft_beside_prompt"] > 0


def test_decode_rate_covers_the_common_interval() -> None:
    early = Stream(events=[0.0, 1.0, 2.0, 3.0], num_tokens=8)
    late = Stream(events=[1.5, 2.0, 2.5, 3.5], num_tokens=4)
    # Between 1.5 and 3.0 s: two deltas of two tokens each, and two of one.
    assert decode_rate([early, late]) == pytest.approx((2 * 2 + 2 * 1) / 1.5)
    assert decode_rate([early, Stream(events=[3.0, 4.0])]) is None
    assert decode_rate([early, Stream()]) is None


def test_mixed_lengths_are_deterministic_and_bounded() -> None:
    scenario = Mixed(num_requests=200, prompt_tokens=1000, answer_tokens=100)
    lengths = scenario.lengths(7)
    assert lengths == scenario.lengths(7) != scenario.lengths(8)
    assert all(16 <= prompt <= 1000 and 8 <= answer <= 100 for prompt, answer in lengths)
    assert sum(prompt < 126 for prompt, _ in lengths) == pytest.approx(100, abs=30)


def test_mixed_sends_all_requests() -> None:
    with fixed_rate_server() as server:
        measure(Mixed(num_requests=7, num_clients=3, prompt_tokens=32, answer_tokens=10), target_on(server))
    assert len(server.bodies) == 7
