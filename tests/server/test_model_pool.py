"""Several models in one server whose memory holds one."""

import json
import os
import shutil
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anthropic
import httpx
import pytest
from click.testing import CliRunner

from mlxctl.cli import app
from tests import tiny_models

from .process import ServerProcess, wait_for

FAMILIES = ("qwen3", "llama3", "lfm2")


def size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.glob("*.safetensors"))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with three good models and a broken one."""
    directory = tmp_path_factory.mktemp("models")
    for family in FAMILIES:
        shutil.copytree(tiny_models.model(family), directory / family)
    shutil.copytree(tiny_models.model("qwen3"), directory / "cut-short")
    weights = directory / "cut-short" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[: size(directory / "cut-short") // 2])
    return directory


@pytest.fixture(scope="module")
def server(models: Path) -> Iterator[ServerProcess]:
    """A server whose memory holds one model and its cache.

    It serves all of them.
    """
    limit = int(1.5 * max(size(models / family) for family in FAMILIES))
    named = [str(models / "qwen3"), "--model", str(models / "llama3"), "--models-dir", str(models)]
    running = ServerProcess(*named, "--memory-limit", str(limit))
    try:
        running.wait_ready()
        yield running
    finally:
        running.kill()


def body(model: str, **fields: Any) -> dict[str, Any]:
    return {
        "model": model,
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 8,
        "temperature": 0,
        **fields,
    }


def answer(server: ServerProcess, model: str) -> str:
    reply = (
        httpx.post(f"{server.url}/v1/chat/completions", json=body(model), timeout=60)
        .raise_for_status()
        .json()
    )
    assert (reply["model"], reply["usage"]["completion_tokens"] > 0) == (model, True)
    return str(reply["choices"][0]["message"]["content"])


def listed(server: ServerProcess) -> dict[str, dict[str, Any]]:
    return {model["id"]: model for model in httpx.get(f"{server.url}/v1/models", timeout=30).json()["data"]}


def test_alternating_models_answer_as_they_do_alone(server: ServerProcess) -> None:
    first = {family: answer(server, family) for family in FAMILIES}
    assert len(set(first.values())) == 3
    for family in FAMILIES:
        assert answer(server, family) == first[family]
        message = (
            httpx.post(f"{server.url}/v1/messages", json=body(family), timeout=60).raise_for_status().json()
        )
        assert (message["model"], message["usage"]["output_tokens"] > 0) == (family, True)


def test_concurrent_requests_for_all_models_are_answered(server: ServerProcess) -> None:
    expected = {family: answer(server, family) for family in FAMILIES}
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda family: (family, answer(server, family)), FAMILIES * 4))
    assert answers == [(family, expected[family]) for family in FAMILIES] * 4


def test_ttl_of_lm_studio_is_the_idle_time_of_a_model_that_the_request_loads(server: ServerProcess) -> None:
    def idle_seconds() -> float | None:
        (model,) = httpx.get(f"{server.url}/stats").json()["pool"]["models"]
        seconds: float | None = model["ttl_seconds"]
        return seconds

    answer(server, "lfm2")
    for path, fields in {
        "/api/v0/chat/completions": {"messages": body("")["messages"]},
        "/api/v0/completions": {"prompt": "hi"},
        "/api/v1/chat": {"input": "hi", "store": False},
    }.items():
        sent = fields | {"max_tokens": 1, "max_output_tokens": 1, "ttl": 300}
        httpx.post(f"{server.url}{path}", json=sent | {"model": "lfm2"}, timeout=60).raise_for_status()
        assert idle_seconds() is None
        httpx.post(f"{server.url}{path}", json=sent | {"model": "llama3"}, timeout=60).raise_for_status()
        assert idle_seconds() == 300
        answer(server, "lfm2")


def test_model_list_has_states(server: ServerProcess) -> None:
    answer(server, "lfm2")
    models = listed(server)
    assert set(models) == {*FAMILIES, "cut-short"}
    assert {name: models[name]["state"] for name in FAMILIES} == {
        "qwen3": "not_loaded",
        "llama3": "not_loaded",
        "lfm2": "loaded",
    }
    assert all(
        models[name]["max_input_tokens"] == 32_768 and models[name]["supports_tools"]
        for name in ("qwen3", "llama3")
    )
    with anthropic.Anthropic(base_url=server.url, api_key="unused") as client:
        answered = client.models.list()
    assert {model.id for model in answered.data} == set(models)


def test_model_list_is_read_in_pages_forwards_and_backwards(server: ServerProcess) -> None:
    names = list(listed(server))
    with anthropic.Anthropic(base_url=server.url, api_key="unused", max_retries=0) as client:
        first = client.models.list(limit=3)
        assert ([model.id for model in first.data], first.has_more) == (names[:3], True)
        assert [model.id for model in client.models.list(limit=3)] == names
        before = client.models.list(limit=2, before_id=names[3])
        assert ([model.id for model in before.data], before.has_more) == (names[1:3], True)
        assert not client.models.list(after_id=names[-1]).data
        for query in ({"limit": 0}, {"after_id": "none"}, {"after_id": names[0], "before_id": names[1]}):
            with pytest.raises(anthropic.BadRequestError, match=list(query)[-1]):
                client.models.list(**query)  # type: ignore[arg-type]


def test_broken_model_fails_alone(server: ServerProcess) -> None:
    for path, message_of in (("/v1/chat/completions", openai_message), ("/v1/messages", anthropic_message)):
        refused = httpx.post(f"{server.url}{path}", json=body("cut-short"), timeout=30)
        assert (refused.status_code, refused.headers["x-should-retry"]) == (500, "false")
        assert "model 'cut-short' is not available: cannot be loaded" in message_of(refused)
        assert "/" not in message_of(refused)
    assert listed(server)["cut-short"]["state"] == "failed"
    assert answer(server, "qwen3")


def openai_message(refused: httpx.Response) -> str:
    assert refused.json()["error"]["code"] == "model_unavailable"
    return str(refused.json()["error"]["message"])


def anthropic_message(refused: httpx.Response) -> str:
    assert refused.json()["error"]["type"] == "api_error"
    return str(refused.json()["error"]["message"])


@pytest.mark.parametrize("name", ["missing", "../qwen3", "/etc", "./qwen3", "qwen3/"])
def test_unregistered_name_never_reads_files(server: ServerProcess, models: Path, name: str) -> None:
    for asked in (name, str(models / "qwen3")):
        refused = httpx.post(f"{server.url}/v1/chat/completions", json=body(asked), timeout=30)
        assert (refused.status_code, refused.json()["error"]["code"]) == (404, "model_not_found")
        assert "available: qwen3, llama3" in refused.json()["error"]["message"]


def test_counting_tokens_loads_no_weights(server: ServerProcess) -> None:
    answer(server, "qwen3")
    asked = {"model": "llama3", "messages": [{"role": "user", "content": "hi"}]}
    assert (
        httpx.post(f"{server.url}/v1/messages/count_tokens", json=asked, timeout=30).json()["input_tokens"]
        > 0
    )
    assert listed(server)["llama3"]["state"] == "not_loaded"


def ask_to(server: ServerProcess, action: str, model: str) -> httpx.Response:
    return httpx.post(f"{server.url}/models/{action}", json={"model": model}, timeout=30)


def test_models_can_be_loaded_unloaded_and_pinned(server: ServerProcess) -> None:
    assert ask_to(server, "load", "lfm2").json() == {"model": "lfm2", "state": "loaded", "pinned": False}
    assert ask_to(server, "pin", "lfm2").json()["pinned"]
    pool = httpx.get(f"{server.url}/stats").json()["pool"]
    assert [(model["name"], model["is_pinned"], model["num_requests"]) for model in pool["models"]] == [
        ("lfm2", True, 0)
    ]

    refused = httpx.post(f"{server.url}/v1/chat/completions", json=body("qwen3"), timeout=30)

    assert refused.json()["error"]["code"] == "model_unavailable"
    assert all(
        part in refused.json()["error"]["message"] for part in ("memory limit", "'lfm2'", "is pinned", "MB")
    )
    assert not ask_to(server, "unpin", "lfm2").json()["pinned"]
    assert ask_to(server, "unload", "lfm2").json()["state"] == "not_loaded"
    assert httpx.get(f"{server.url}/stats").json()["pool"]["models"] == []
    assert answer(server, "qwen3")


@pytest.mark.parametrize("sent", [b"", b"[]", b'{"model": 5}', b'{"model": "qwen3", "path": "/etc"}', b"{"])
def test_invalid_model_actions_are_refused(server: ServerProcess, sent: bytes) -> None:
    for action in ("load", "unload", "pin", "unpin"):
        url = f"{server.url}/models/{action}"
        assert httpx.post(url, content=sent).status_code == 400
        assert ask_to(server, action, "missing").status_code == 404


@pytest.fixture(scope="module")
def busy(models: Path) -> Iterator[ServerProcess]:
    """A server whose memory holds one model.

    At first that is the one with endless answers.
    """
    limit = int(1.5 * max(size(models / family) for family in FAMILIES))
    endless = tiny_models.model("endless_mamba")
    running = ServerProcess(
        "--model", str(endless), "--name", "endless", "--models-dir", str(models), "--memory-limit",
        str(limit),
        environment={
            "MLXCTL_SERVER_PING_INTERVAL_SECONDS": "0.2",
            "MLXCTL_ENGINE_ADMISSION": "prompt",
            "MLXCTL_SERVER_REQUEST_TIMEOUT_SECONDS": "0.5",
            "MLXCTL_SERVER_TIMEOUTS": "chat=60,messages=60,admin=60",
        },
    )  # fmt: skip
    try:
        running.wait_ready()
        yield running
    finally:
        running.kill()


def stream_endless(server: ServerProcess, path: str = "/v1/chat/completions") -> Any:
    asked = body("endless", max_tokens=20_000, stream=True)
    return httpx.stream("POST", f"{server.url}{path}", json=asked, timeout=30)


def test_stream_waiting_for_its_model_gets_pings(busy: ServerProcess) -> None:
    """A long answer uses the one model in memory.

    A request for another is served after it.
    """
    for path in ("/v1/chat/completions", "/v1/messages"):
        with stream_endless(busy, path) as first:
            first_lines = first.iter_lines()
            next(first_lines)
            with httpx.stream(
                "POST", f"{busy.url}{path}", json=body("qwen3", stream=True), timeout=30
            ) as second:
                lines = second.iter_lines()
                pings = [next(lines) for _ in range(3)]
                in_use = ask_to(busy, "unload", "endless")
                first.close()
                rest = [line for line in lines if line]
        assert "ping" in pings[0]
        assert (in_use.status_code, in_use.json()["error"]["code"]) == (503, "model_in_use")
        assert "[DONE]" in rest[-1] or "message_stop" in rest[-1]
        assert ask_to(busy, "load", "endless").status_code == 200


def test_explaining_and_mounting_stop_waiting_at_the_time_limit(busy: ServerProcess) -> None:
    bodies = {
        "/cache/explain": {"body": body("qwen3")},
        "/v1/adapters": {"id": "style", "path": "style", "model": "qwen3"},
        "/v1/load_lora_adapter": {"lora_name": "style", "lora_path": "style", "base_model_name": "qwen3"},
    }
    with stream_endless(busy) as first, ThreadPoolExecutor(3) as pool:
        lines = first.iter_lines()
        next(lines)
        posts = [pool.submit(httpx.post, busy.url + path, json=sent) for path, sent in bodies.items()]
        answers = [post.result() for post in posts]
    assert [each.status_code for each in answers] == [504, 504, 504]
    assert {each.json()["error"]["code"] for each in answers} == {"deadline_exceeded"}


def stream_load(server: ServerProcess, model: str) -> Any:
    sent = {"model": model, "stream": True}
    return httpx.stream("POST", f"{server.url}/models/load", json=sent, timeout=30)


def events_of(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    return (json.loads(line.removeprefix("data: ")) for line in lines if line)


def test_load_stream_reports_progress_and_ends_with_state_or_error(busy: ServerProcess) -> None:
    with (
        stream_endless(busy) as first,
        stream_load(busy, "lfm2") as good,
        stream_load(busy, "cut-short") as broken,
    ):
        waiting = next(events := events_of(good.iter_lines()))
        first.close()
        *_, loaded = events
        *_, failed = events_of(broken.iter_lines())
    assert (waiting["state"], waiting["bytes_loaded"]) == ("not_loaded", 0)
    assert waiting["bytes_total"] == listed(busy)["lfm2"]["size_bytes"]
    assert loaded == {"model": "lfm2", "state": "loaded", "pinned": False}
    assert failed["code"] == failed["error"]["code"] == "model_unavailable"
    with stream_load(busy, "missing") as unknown:
        assert unknown.status_code == 404
    in_query = httpx.post(f"{busy.url}/models/load?stream=1", json={"model": "lfm2"}, timeout=30)
    assert in_query.headers["content-type"] == "text/event-stream"


def test_first_model_is_reloaded_after_engine_death(
    server: ServerProcess,
) -> None:
    answer(server, "llama3")
    httpx.patch(f"{server.url}/admin/cache", json={"prefix_cache_bytes": 54_321}).raise_for_status()
    os.kill(server.engine_pid(), signal.SIGKILL)
    wait_for(lambda: server.health()["status"] == "recovering", seconds=20)
    waiting = httpx.post(f"{server.url}/v1/chat/completions", json=body("llama3"), timeout=30)
    assert (waiting.status_code, waiting.json()["error"]["code"]) == (503, "engine_recovering")
    assert int(waiting.headers["retry-after"]) >= 1

    server.wait_ready()

    assert listed(server)["qwen3"]["state"] == "loaded"
    assert httpx.get(f"{server.url}/stats").json()["cache_max_bytes"] == 54_321
    assert answer(server, "llama3")


def test_unusable_first_model_ends_with_one_error_line(models: Path) -> None:
    run = CliRunner().invoke(app, ["serve", "--port", "0", "--model", str(models / "cut-short")])
    assert run.exit_code == 1
    assert run.stderr.splitlines()[-1].startswith("mlxctl: ")
    assert "cut-short" in run.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--models-dir", "{empty}"], "there is no model in"),
        (["--model", "{good}", "--pin", "missing"], "there is no model 'missing'"),
        (["--model", "/nowhere", "--model", "{good}"], "there is no model directory at '/nowhere'"),
        (["{good}", "--adapter", "a=/nowhere"], "there is no adapter directory at '/nowhere'"),
    ],
)
def test_unusable_model_settings_are_one_error_line(
    models: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    named = [each.format(empty=tmp_path, good=models / "qwen3") for each in arguments]
    run = CliRunner().invoke(app, ["serve", "--port", "0", *named])
    assert (run.exit_code, run.stderr.count("\n")) == (1, 1), run.stderr
    assert run.stderr.startswith(f"mlxctl: {message}")
