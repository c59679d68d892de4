"""Complete runs on servers of known speed."""

import asyncio
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

import mlxctl
from mlxctl import __version__
from mlxctl.bench.environment import describe_environment
from mlxctl.bench.result import EngineFacts, Result, encode_result, load_result, save_result
from mlxctl.bench.run import RunOptions, ServerChoice, measured_speed, run_bench
from mlxctl.bench.scenarios import Latency, Throughput
from mlxctl.bench.target import open_target
from mlxctl.ir.errors import CapacityError, ConnectionLost, SettingsError, UnknownModel
from mlxctl.library import DEMO_MODEL, describe_model, this_machine
from tests.bench.fixed_rate_server import fixed_rate_server
from tests.bench.recording_observer import RecordingObserver
from tests.inference.scripted_server import ScriptedServer, listening

SMALL = Latency(num_requests=2, prompt_tokens=16, answer_tokens=5)


def options(*urls: str, num_rounds: int = 3, model: str | None = None) -> RunOptions:
    servers = tuple(ServerChoice(url=url, model=model) for url in urls)
    return RunOptions(servers=servers, num_rounds=num_rounds, num_warmups=1)


def test_two_servers_alternate_with_equal_prompts() -> None:
    observer = RecordingObserver()
    with fixed_rate_server() as one, fixed_rate_server(pause_seconds=0.05) as other:
        result = run_bench(SMALL, options(one.url, other.url, num_rounds=2), observer)
    assert observer.lines == [
        "A warm-up 1/1",
        "B warm-up 1/1",
        "A round 1/2",
        "B round 1/2",
        "A round 2/2",
        "B round 2/2",
    ]
    assert [body["messages"] for body in one.bodies] == [body["messages"] for body in other.bodies]
    texts = [str(body["messages"]) for body in one.bodies]
    assert len(set(texts)) == len(texts)
    ratio = next(ratio for ratio in result.ratios if ratio.name == "itl_p50")
    assert ratio.ratio.highest < 0.8


def test_result_stores_environment_settings_and_figures(tmp_path: Path) -> None:
    with fixed_rate_server() as server:
        result = run_bench(SMALL, options(server.url), RecordingObserver())
    assert not result.is_partial
    assert result.servers[0].model == "fixed-rate"
    assert (result.servers[0].version, result.servers[0].engine) == (None, EngineFacts())
    assert result.environment["packages"]["mlx"]
    assert result.settings | SMALL.settings == result.settings
    assert result.client.num_tokens == 3 * 2 * 5
    found = result.find("ttft_p50")
    assert found is not None
    assert 0.002 <= found.lowest <= found.median <= found.highest
    save_result(result, tmp_path / "new" / "result.json")
    assert load_result(tmp_path / "new" / "result.json") == result


def test_equal_seeds_give_equal_lengths_and_different_texts() -> None:
    with fixed_rate_server() as server:
        for _ in range(2):
            run_bench(SMALL, options(server.url, num_rounds=1), RecordingObserver())
    first, second = server.bodies[: len(server.bodies) // 2], server.bodies[len(server.bodies) // 2 :]
    contents = [[body["messages"][0]["content"] for body in half] for half in (first[1:], second[1:])]
    assert all(one != other for one, other in zip(*contents, strict=True))
    assert [text.split()[1:] for text in contents[0]] == [text.split()[1:] for text in contents[1]]


def test_prompts_have_the_requested_number_of_tokens() -> None:
    scenario = Latency(num_requests=1, prompt_tokens=200, answer_tokens=2)
    with fixed_rate_server() as server:
        run_bench(scenario, options(server.url, num_rounds=1), RecordingObserver())
    # The server counts two tokens per word.
    assert len(server.bodies[-1]["messages"][0]["content"].split()) == pytest.approx(100, rel=0.1)


def test_too_long_prompts_are_shortened_with_a_note() -> None:
    with fixed_rate_server() as server:
        result = run_bench(
            Latency(num_requests=1, prompt_tokens=100_000),
            options(server.url, num_rounds=1),
            RecordingObserver(),
        )
    assert any("shortened to 3622" in note for note in result.notes)


def test_rejected_request_field_is_omitted() -> None:
    with fixed_rate_server(rejected_field="ignore_eos") as server:
        result = run_bench(SMALL, options(server.url, num_rounds=1), RecordingObserver())
    assert result.num_rounds == 1
    assert "ignore_eos" not in server.bodies[-1]


def test_server_without_usage_is_measured_with_a_note() -> None:
    with fixed_rate_server(sends_usage=False) as server:
        result = run_bench(SMALL, options(server.url, num_rounds=1), RecordingObserver())
    assert any("counted by stream events" in note for note in result.notes)


def test_interruption_keeps_finished_rounds() -> None:
    with fixed_rate_server() as server:
        result = run_bench(SMALL, options(server.url), RecordingObserver(cancels_at="A round 3/3"))
    assert (result.is_partial, result.problem, result.num_rounds, result.num_rounds_wanted) == (
        True,
        "interrupted",
        2,
        3,
    )
    assert all(len(found.rounds) == 2 for found in result.measurements)


def test_failing_server_leaves_a_partial_result() -> None:
    with fixed_rate_server(num_answers=1 + 2 + 2 + 1) as server:
        result = run_bench(SMALL, options(server.url), RecordingObserver())
    assert result.is_partial
    assert result.problem == "the connection ended during the answer"
    assert result.num_rounds == 1


def test_server_failing_in_the_first_round_is_an_error() -> None:
    with fixed_rate_server(num_answers=2) as server, pytest.raises(ConnectionLost):
        run_bench(SMALL, options(server.url), RecordingObserver())


def test_unreachable_server_and_unknown_model_are_errors() -> None:
    with pytest.raises(CapacityError, match="no server answers"):
        run_bench(SMALL, options("http://127.0.0.1:9"), RecordingObserver())
    with fixed_rate_server() as server, pytest.raises(UnknownModel, match="available: fixed-rate"):
        run_bench(SMALL, options(server.url, model="other"), RecordingObserver())


def test_server_without_model_list_needs_a_named_model() -> None:
    with fixed_rate_server(lists_models=False) as server:
        with pytest.raises(CapacityError, match="no list of models"):
            run_bench(SMALL, options(server.url), RecordingObserver())
        result = run_bench(SMALL, options(server.url, num_rounds=1, model="named"), RecordingObserver())
    assert result.servers[0].model == server.bodies[-1]["model"] == "named"


def test_result_has_no_path_of_a_model() -> None:
    with fixed_rate_server(lists_models=False) as server:
        result = run_bench(
            SMALL, options(server.url, num_rounds=1, model="/home/ada/models/named"), RecordingObserver()
        )
    assert (result.servers[0].model, server.bodies[-1]["model"]) == ("named", "/home/ada/models/named")


def test_concurrent_streams_have_a_higher_total_rate() -> None:
    with fixed_rate_server(pause_seconds=0.02) as server:
        result = run_bench(
            Throughput(streams=(1, 8), answer_tokens=12, prompt_tokens=64),
            options(server.url),
            RecordingObserver(),
        )
    one, eight = result.find("decode_tokens_per_second_x1"), result.find("decode_tokens_per_second_x8")
    assert one is not None
    assert eight is not None
    assert eight.median > 2 * one.median


def test_server_without_a_model_list_needs_a_named_model() -> None:
    async def measure() -> None:
        async with listening(ScriptedServer(b"", models=b'{"data": []}')) as server:
            await open_target("B", server.url)

    with pytest.raises(
        CapacityError, match="serves no model yet; name one that it serves with --against-model"
    ):
        asyncio.run(measure())


def test_own_server_is_started_and_measured() -> None:
    scenario = Latency(num_requests=2, prompt_tokens=32, answer_tokens=8)
    choice = ServerChoice(serve_arguments=("--max-queue", "3"))
    result = run_bench(
        scenario, RunOptions(servers=(choice,), num_rounds=1, num_warmups=0), RecordingObserver()
    )
    (server,) = result.servers
    assert (server.model, server.version) == ("mlxctl-demo", __version__)
    assert (server.num_parameters, server.number_format) == (1_576_480, "16-bit float")
    assert server.engine.backend in ("cpu", "metal", "cuda")
    assert server.engine.mlx_version == result.environment["packages"]["mlx"]
    assert result.find("ttft_p50") is not None


def test_commit_is_that_of_mlxctl_wherever_the_command_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    expected = describe_environment(this_machine())["commit"]
    monkeypatch.chdir(tmp_path)
    assert describe_environment(this_machine())["commit"] == expected
    monkeypatch.setattr(mlxctl, "__file__", str(tmp_path / "site-packages" / "mlxctl" / "__init__.py"))
    assert describe_environment(this_machine())["commit"] is None


def test_own_server_that_cannot_start_reports_its_error() -> None:
    choice = ServerChoice(serve_arguments=("--model", "/nowhere/at/all"))
    with pytest.raises(SettingsError, match="/nowhere/at/all"):
        run_bench(SMALL, RunOptions(servers=(choice,)), RecordingObserver())


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read"),
        ("", "is not a result"),
        ("{}", "is not a result"),
        ('{"format": 2}', "is not a result"),
        ("[1]", "is not a result"),
    ],
)
def test_invalid_result_file_is_named_in_the_error(tmp_path: Path, content: str | None, words: str) -> None:
    file = tmp_path / "broken.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(SettingsError, match=f"broken.json' {words}"):
        load_result(file)


def test_encoded_result_is_one_line() -> None:
    with fixed_rate_server() as server:
        result: Result = run_bench(SMALL, options(server.url, num_rounds=1), RecordingObserver())
    assert "\n" not in encode_result(result)


def test_speed_of_a_described_model_is_what_one_stream_measured() -> None:
    scenario = Throughput(streams=(1,), answer_tokens=20, prompt_tokens=32)
    demo = describe_model(DEMO_MODEL.path, name=DEMO_MODEL.name)
    with fixed_rate_server() as server:
        described = replace(options(server.url), described=demo)
        result = run_bench(scenario, described, RecordingObserver())
    speed = measured_speed(result, described)
    decoded = result.find("decode_tokens_per_second_x1")
    assert speed is not None
    assert decoded is not None
    assert speed.decode_tokens_per_second == decoded.median
    assert measured_speed(result, replace(described, has_serve_options=True)) is None
