"""The audit log of a running server: a record per request.

No content by default.
"""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from mlxctl.cli import app
from mlxctl.cli.audit import time_of
from mlxctl.ir.errors import SettingsError
from mlxctl.state.settings import ServerSettings

from .conftest import unstarted_app
from .hosted import HostedServer, hosting
from .process import wait_for

CANARY = "zebra-canary-7391"


def audited(model: Path, state: Path, *arguments: str) -> AbstractContextManager[HostedServer]:
    places = {"XDG_STATE_HOME": str(state), "XDG_CACHE_HOME": str(state / "cache")}
    return hosting(model, "--audit", "--cache-disk-bytes", "0", *arguments, **places)


def post(server: HostedServer, path: str = "/v1/chat/completions", **headers: str) -> httpx.Response:
    body = {"model": "tiny", "messages": [{"role": "user", "content": f"Say {CANARY}."}], "max_tokens": 8}
    return httpx.post(f"{server.url}{path}", json=body, headers=headers, timeout=60)


def found(server: HostedServer, query: str = "", **headers: str) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = httpx.get(f"{server.url}/admin/audit{query}", headers=headers).json()[
        "records"
    ]
    return records


def stored(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in directory.rglob("*") if path.is_file())


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("state")


@pytest.fixture(scope="module")
def with_keys(endless_model: Path, state: Path) -> Iterator[HostedServer]:
    """Server with an audit log, an API key and an admin key."""
    with audited(endless_model, state, "--api-key", "key-of-alpha", "--admin-key", "key-of-admin") as server:
        yield server


ADMIN = {"authorization": "Bearer key-of-admin"}


def test_record_names_request_caller_tokens_and_times(with_keys: HostedServer, state: Path) -> None:
    server = with_keys
    post(server, "/v1/messages", **{"x-api-key": "key-of-alpha", "x-request-id": "recorded"})
    post(server, "/v1/messages", **{"x-api-key": "wrong"})
    wait_for(lambda: len(found(server, **ADMIN)) == 2, seconds=20)
    (record,) = found(server, "?status=200", **ADMIN)
    (refused,) = found(server, "?status=401", **ADMIN)
    own = httpx.get(f"{server.url}/admin/audit", headers={"x-api-key": "key-of-alpha"})
    assert found(server, f"?key={record['caller']}", **ADMIN) == [record]
    assert (record["request_id"], record["route"], record["model"]) == ("recorded", "/v1/messages", "tiny")
    assert (record["completion_tokens"], record["finish_reason"], record["protocol"]) == (
        8,
        "length",
        "anthropic",
    )
    assert 0 < record["ttft_ms"] <= record["duration_ms"]
    assert [len(digest) for digest in record["prompt_sha256"] + record["response_sha256"]] == [64, 64]
    assert (refused["error"], "caller" in refused) == ("invalid_api_key", False)
    assert own.status_code == 403
    assert b"key-of-" not in stored(state)


def test_commands_read_the_log_of_this_machine(
    with_keys: HostedServer, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    for request_id in ("first", "second"):
        post(with_keys, **{"x-request-id": request_id}, **ADMIN)
    wait_for(
        lambda: [each["request_id"] for each in found(with_keys, "?limit=2", **ADMIN)] == ["second", "first"],
        seconds=20,
    )

    def run(*arguments: str) -> str:
        return CliRunner().invoke(app, ["audit", *arguments], catch_exceptions=False).stdout

    tail = json.loads(run("tail", "--json"))
    assert [record["request_id"] for record in tail][-2:] == ["first", "second"]
    assert json.loads(run("search", "--since", "2020-01-01", "--limit", "1", "--json")) == tail[-1:]
    assert run("search", "--until", "2020-01-01").strip() == "no records"
    assert "POST /v1/chat/completions 200" in run("tail")
    assert json.loads(run("prune", "--json")) == {"deleted_files": 0}


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "yesterday"])
def test_time_that_is_no_time_names_the_option(text: str) -> None:
    with pytest.raises(SettingsError, match="--since must be a time"):
        time_of(text, "--since")


def test_invalid_query_names_the_parameter(with_keys: HostedServer) -> None:
    queries = ["limit=0", "limit=x", "since=yesterday", "status=1.5", "after=-"]
    refused = [httpx.get(f"{with_keys.url}/admin/audit?{query}", headers=ADMIN) for query in queries]
    assert [(one.status_code, one.json()["error"]["param"]) for one in refused] == [
        (400, query.partition("=")[0]) for query in queries
    ]


def test_content_is_in_no_file_unless_debug_is_on(
    with_keys: HostedServer, state: Path, endless_model: Path, tmp_path: Path
) -> None:
    with audited(endless_model, tmp_path, "--audit-debug", "--admin-key", "key-of-admin") as debugging:
        for server, directory, debug in ((with_keys, state, False), (debugging, tmp_path, True)):
            request_id = f"content-{debug}"
            headers = {**ADMIN, "x-request-id": request_id}
            answer = post(server, **headers).json()["choices"][0]["message"]["content"]
            wait_for(lambda: request_id in str(found(server, "?limit=1", **ADMIN)), seconds=20)  # noqa: B023
            if debug:
                server.stop()
            data = stored(directory)
            assert answer
            assert (CANARY.encode() in data) == debug
            assert (json.dumps(answer).encode().strip(b'"') in data) == debug


def test_requests_succeed_while_the_log_cannot_be_written(endless_model: Path, tmp_path: Path) -> None:
    config = tmp_path / "mlxctl.toml"
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where the directory should be")
    config.write_text(f"[audit]\npath = {str(blocked)!r}\n")
    with audited(endless_model, tmp_path, "--config", str(config)) as server:
        assert post(server).status_code == 200
        page = lambda: httpx.get(f"{server.url}/admin/audit").json()  # noqa: E731
        wait_for(lambda: page()["num_dropped"] == 1, seconds=20)
        assert "mlxctl_audit_dropped_total 1.0" in httpx.get(f"{server.url}/metrics").text
        assert post(server).status_code == 200


def test_route_without_an_audit_log_explains_its_absence(endless_model: Path) -> None:
    refused = unstarted_app(endless_model, ServerSettings()).simulate_get("/admin/audit")
    assert refused.status_code == 400
    assert "--audit" in refused.json["detail"]
