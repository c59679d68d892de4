"""GET and PATCH /admin/scheduler, and preemption through the API."""

import json
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result
from prometheus_client.parser import text_string_to_metric_families

from mlxctl.cli import app
from mlxctl.state.settings import EngineSettings, SchedulerSettings, ServerSettings

from .conftest import unstarted_app
from .hosted import HostedServer, hosting
from .process import wait_for

PATH = "/admin/scheduler"


@pytest.fixture(scope="module")
def server(endless_model: Path) -> Iterator[HostedServer]:
    """A server with one place in the batch."""
    with hosting(endless_model, MLXCTL_ENGINE_MAX_ROWS="1") as running:
        yield running


def test_change_is_in_force_and_leaves_other_settings(endless_model: Path) -> None:
    client = unstarted_app(endless_model, ServerSettings(max_queue=7))
    before = client.simulate_get(PATH).json

    changed = client.simulate_patch(PATH, json={"enable_preemption": True, "target_gap_ms": 50})

    assert before["max_queue"] == 7
    assert changed.status_code == 200
    assert changed.json == before | {"enable_preemption": True, "target_gap_ms": 50}
    assert client.simulate_get(PATH).json == changed.json


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ({"max_rows": 0}, "max_rows"),
        ({"max_rows": 1.5}, "max_rows"),
        ({"max_queue": -1}, "max_queue"),
        ({"target_gap_ms": 0}, "target_gap_ms"),
        ({"target_ttft_ms": "soon"}, "target_ttft_ms"),
        ({"enable_preemption": "yes"}, "enable_preemption"),
        ({"high_priority_threshold": 101}, "high_priority_threshold"),
        ({"aging_seconds": 0}, "aging_seconds"),
        ({"max_rows": 10**30}, "max_rows"),
        ({"max_row": 3}, "max_row"),
        ({}, "max_timeslice_tokens"),
    ],
)
def test_nonsense_is_refused_by_name_and_changes_nothing(
    endless_model: Path, body: dict[str, Any], name: str
) -> None:
    client = unstarted_app(endless_model, ServerSettings())
    before = client.simulate_get(PATH).json

    refused = client.simulate_patch(PATH, json=body | ({"max_timeslice_tokens": 9} if body else {}))

    assert refused.status_code == 400
    assert name in refused.json["error"]["message"]
    assert client.simulate_get(PATH).json == before


def test_bounds_are_those_of_the_settings_file(endless_model: Path) -> None:
    spec = unstarted_app(endless_model, ServerSettings()).simulate_get("/openapi.json").json
    schema = spec["components"]["schemas"]["SchedulerChange"]["properties"]
    bounds = {
        field.name: (field.metadata.get("least"), field.metadata.get("most"))
        for section in (EngineSettings, SchedulerSettings, ServerSettings)
        for field in fields(section)
    }

    assert {field.name for field in fields(SchedulerSettings)} <= set(schema)
    for name, value in schema.items():
        number = next((kind for kind in value.get("anyOf", [value]) if kind.get("type") != "null"), value)
        assert (number.get("minimum"), number.get("maximum")) == bounds[name]


def chat(server: HostedServer, **more: Any) -> dict[str, Any]:
    body = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "temperature": 0, **more}
    answer = httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=60)
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


def stats(server: HostedServer) -> dict[str, Any]:
    found: dict[str, Any] = httpx.get(f"{server.url}/stats").json()
    return found


def fairness(server: HostedServer) -> dict[str, float]:
    families = text_string_to_metric_families(httpx.get(f"{server.url}/metrics").text)
    return {
        sample.name: sample.value
        for family in families
        if family.name.startswith("mlxctl_fairness")
        for sample in family.samples
        if not sample.labels
    }


def test_live_change_allows_an_urgent_request_to_interrupt(server: HostedServer) -> None:
    # Long enough that the change and the urgent request come before its end.
    num_tokens = 400
    alone = chat(server, max_tokens=num_tokens, stop=["\u0000"])["choices"][0]["message"]["content"]
    body = {
        "model": "tiny",
        "messages": [{"role": "user", "content": "hi"}],
        "temperature": 0,
        "max_tokens": num_tokens,
        "stream": True,
    }
    text = ""
    with httpx.stream("POST", f"{server.url}/v1/chat/completions", json=body, timeout=60) as stream:
        lines = (line.removeprefix("data: ") for line in stream.iter_lines() if line.startswith("data: {"))
        for _ in range(5):
            text += _content(next(lines))
        changed = httpx.patch(f"{server.url}{PATH}", json={"enable_preemption": True})
        urgent = chat(server, max_tokens=2, priority=-50)
        for line in lines:
            text += _content(line)

    assert changed.json()["enable_preemption"] is True
    assert urgent["usage"]["completion_tokens"] == 2
    assert text == alone
    counts = fairness(server)
    assert counts["mlxctl_fairness_preemptions_total"] == counts["mlxctl_fairness_resumes_total"] == 1
    assert counts["mlxctl_fairness_yields_total"] == 0


def test_client_that_leaves_while_preempted_frees_the_place(server: HostedServer) -> None:
    httpx.patch(f"{server.url}{PATH}", json={"enable_preemption": True}).raise_for_status()
    body = {"model": "tiny", "prompt": "hi", "max_tokens": 30_000, "stream": True}
    low, high = (
        httpx.Client(timeout=60).build_request(
            "POST", f"{server.url}/v1/completions", json=body | {"priority": priority}
        )
        for priority in (10, -10)
    )
    with httpx.Client(timeout=60) as client:
        low_stream = client.send(low, stream=True)
        low_lines = low_stream.iter_lines()
        next(low_lines)
        high_stream = client.send(high, stream=True)
        high_lines = high_stream.iter_lines()
        next(high_lines)
        assert stats(server)["num_preempted"] == 1
        low_stream.close()
        high_stream.close()
        wait_for(lambda: server.health()["open_requests"] == 0, seconds=20)

    assert chat(server, max_tokens=1)["usage"]["completion_tokens"] == 1
    after = stats(server)
    assert (after["num_preempted"], after["num_decoding"], after["num_waiting"]) == (0, 0, 0)


def test_command_line_shows_and_sets(server: HostedServer) -> None:
    shown = run("set", "max_timeslice_tokens=64", server=server)
    refused = run("set", "aging_seconds=never", server=server)
    state = json.loads(run("show", "--json", server=server).stdout)

    assert "max_timeslice_tokens=64" in shown.stdout
    assert refused.exit_code == 1
    assert "aging_seconds" in refused.output
    assert state["max_timeslice_tokens"] == 64


def test_stats_have_the_row_limit_in_force(server: HostedServer) -> None:
    for rows in (3, 1):
        httpx.patch(f"{server.url}{PATH}", json={"max_rows": rows}).raise_for_status()
        batch = stats(server)["batch"]
        assert (batch["configured"], batch["batched"]) == (rows, rows > 1)


def run(*arguments: str, server: HostedServer) -> Result:
    return CliRunner().invoke(app, ["scheduler", *arguments, "--url", server.url])


def _content(line: str) -> str:
    choices = json.loads(line)["choices"]
    return choices[0]["delta"].get("content") or "" if choices else ""
