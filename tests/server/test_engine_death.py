"""Death of the engine during requests.

Errors in each protocol, and a restart.
"""

import os
import shutil
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from .process import ServerProcess, is_alive, serving, wait_for

BODY: dict[str, Any] = {
    "model": "tiny",
    "messages": [{"role": "user", "content": "hi"}],
    "max_tokens": 20_000,
}


@contextmanager
def streaming(server: ServerProcess, path: str, body: dict[str, Any] = BODY) -> Iterator[Iterator[str]]:
    """Return the lines of a stream that has started."""
    with httpx.stream("POST", f"{server.url}{path}", json={**body, "stream": True}, timeout=30) as response:
        lines = response.iter_lines()
        for line in lines:
            if (
                '"content":"' in line
                or "text_delta" in line
                or "output_text.delta" in line
                or '"text":"' in line
            ):
                break
        yield lines


@pytest.fixture(scope="module")
def server(endless_model: Path) -> Iterator[ServerProcess]:
    """An own server, whose engine is killed."""
    with serving(endless_model) as running:
        yield running


def test_open_requests_fail_in_their_protocol_and_the_engine_restarts(server: ServerProcess) -> None:
    chat_url, messages_url = f"{server.url}/v1/chat/completions", f"{server.url}/v1/messages"
    first_engine = server.engine_pid()
    with (
        ThreadPoolExecutor() as pool,
        streaming(server, "/v1/chat/completions") as chat_lines,
        streaming(server, "/v1/messages") as messages_lines,
        streaming(server, "/v1/responses", {"model": "tiny", "input": "hi"}) as response_lines,
        streaming(
            server, "/v1/completions", {"model": "tiny", "prompt": "hi", "n": 2, "max_tokens": 20_000}
        ) as completion_lines,
    ):
        whole = pool.submit(httpx.post, chat_url, json=BODY, timeout=30)
        wait_for(lambda: server.health()["open_requests"] == 5, seconds=20)
        os.kill(first_engine, signal.SIGKILL)

        chat_end = [line for line in chat_lines if line][-2:]
        messages_end = [line for line in messages_lines if line][-2:]
        response_end = [line for line in response_lines if line][-3:]
        completion_end = [line for line in completion_lines if line][-2:]
        whole_answer = whole.result()
    assert '"error"' in chat_end[0]
    assert chat_end[1] == "data: [DONE]"
    assert messages_end[0] == "event: error"
    assert (response_end[0], response_end[2]) == ("event: response.failed", "data: [DONE]")
    assert '"error"' in completion_end[0]
    assert (whole_answer.status_code, whole_answer.json()["error"]["code"]) == (500, "internal_error")

    meanwhile = httpx.post(messages_url, json=BODY)
    assert (meanwhile.status_code, meanwhile.json()["error"]["type"]) == (503, "overloaded_error")
    assert int(meanwhile.headers["retry-after"]) >= 1
    assert httpx.get(f"{server.url}/livez").status_code == 200

    server.wait_ready()
    again = httpx.post(chat_url, json={**BODY, "max_tokens": 3}, timeout=30)
    assert again.json()["usage"]["completion_tokens"] == 3
    assert server.engine_pid() != first_engine
    assert not is_alive(first_engine)


def test_ready_when_all_waits_until_every_lost_model_is_reloaded(endless_model: Path, tmp_path: Path) -> None:
    lost, other = (
        shutil.copytree(endless_model, tmp_path / "lost"),
        shutil.copytree(endless_model, tmp_path / "other"),
    )
    named = ("--model", str(lost), "--model", str(other))
    with serving(None, *named, MLXCTL_SERVER_READY_WHEN="all") as server:
        chat = f"{server.url}/v1/chat/completions"
        (lost / "model.safetensors").rename(tmp_path / "away")
        os.kill(server.engine_pid(), signal.SIGKILL)
        wait_for(lambda: server.health()["problem"], seconds=30)

        unready = httpx.get(f"{server.url}/readyz")
        assert (unready.status_code, server.health()["status"]) == (503, "recovering")
        assert unready.json()["status"] == "not_ready"
        assert "model 'lost' could not be loaded again" in unready.json()["detail"]
        assert str(tmp_path) not in unready.text
        assert (
            httpx.post(chat, json={**BODY, "model": "other", "max_tokens": 3}, timeout=30).status_code == 200
        )
        assert (
            httpx.post(chat, json={**BODY, "model": "lost", "max_tokens": 3}, timeout=30).status_code == 500
        )

        (tmp_path / "away").rename(lost / "model.safetensors")
        server.wait_ready()
        assert server.health()["problem"] is None
        assert (
            httpx.post(chat, json={**BODY, "model": "lost", "max_tokens": 3}, timeout=30).status_code == 200
        )


def test_readyz_needs_one_loaded_model_only(endless_model: Path, tmp_path: Path) -> None:
    lost = shutil.copytree(endless_model, tmp_path / "lost")
    other = shutil.copytree(endless_model, tmp_path / "other")
    named = ("--model", str(lost), "--model", str(other))
    with serving(None, *named) as server:
        (lost / "model.safetensors").unlink()
        os.kill(server.engine_pid(), signal.SIGKILL)
        wait_for(lambda: server.health()["problem"], seconds=30)
        assert httpx.get(f"{server.url}/readyz").status_code == 503
        chat = {**BODY, "model": "other", "max_tokens": 3}
        assert httpx.post(f"{server.url}/v1/chat/completions", json=chat, timeout=30).status_code == 200
        assert httpx.get(f"{server.url}/readyz").json() == {"status": "ready"}
        degraded = {"status": "degraded", "reason": "model_not_loaded"}
        assert httpx.get(f"{server.url}/healthz").json() == degraded
