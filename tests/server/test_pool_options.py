"""Options of several models: names, counts, time to live, queue."""

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import tiny_models

from .hosted import HostedServer, hosting
from .process import wait_for


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three models in the local library."""
    directory = tmp_path_factory.mktemp("library")
    for family in ("qwen3", "llama3", "lfm2"):
        shutil.copytree(tiny_models.model(family), directory / family)
    return directory


def ask(server: HostedServer, model: str, **fields: Any) -> httpx.Response:
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4, **fields}
    return httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=60)


def pool_stats(server: HostedServer) -> dict[str, Any]:
    stats: dict[str, Any] = httpx.get(f"{server.url}/stats").json()["pool"]
    return stats


def resident(server: HostedServer) -> set[str]:
    return {model["name"] for model in pool_stats(server)["models"]}


def test_preload_pin_alias_and_library_options(library: Path, tmp_path: Path) -> None:
    """At most two models are in memory: both at the start.

    The pinned one stays when others are requested.
    """
    settings = tmp_path / "mlxctl.toml"
    aliases = '[library.aliases]\nquick = "llama3"\n"claude-*" = "quick"\n'
    settings.write_text(f'[library]\nmodels_dirs = ["{library}"]\n\n{aliases}')
    named = ["--model", str(tiny_models.model("endless")), "--name", "first", "--config", str(settings)]
    with hosting(
        None, *named, "--preload", "--max-models", "2", "--pin", "first", "--any-library-model"
    ) as server:
        wait_for(lambda: resident(server) == {"first", "quick"}, seconds=60)
        for name in ("quick", "llama3"):
            assert ask(server, name).json()["model"] == name
        assert ask(server, "claude-3-5-haiku-20241022").json()["model"] == "quick"
        assert resident(server) == {"first", "quick"}
        for name in ("qwen3", "lfm2"):
            assert ask(server, name).status_code == 200
            assert resident(server) == {"first", name}
        assert ask(server, "missing").json()["error"]["code"] == "model_not_found"
        assert ask(server, str(library / "qwen3")).json()["error"]["code"] == "model_not_found"


def test_idle_model_is_unloaded_and_pinned_one_stays(library: Path) -> None:
    named = ["--model", str(library / "qwen3"), "--model", str(library / "llama3"), "--pin", "qwen3"]
    with hosting(None, *named, "--model-ttl", "0.5") as server:
        assert ask(server, "llama3").status_code == 200
        wait_for(lambda: resident(server) == {"qwen3"}, seconds=20)
        assert ask(server, "llama3").status_code == 200


@pytest.fixture(scope="module")
def narrow(library: Path) -> Iterator[HostedServer]:
    """Server with one model in memory, one row, no queue, frequent pings."""
    endless = str(tiny_models.model("endless"))
    named = ["--model", endless, "--name", "endless", "--any-library-model", "--max-models", "1"]
    places = {"MLXCTL_LIBRARY_MODELS_DIRS": str(library), "MLXCTL_SERVER_PING_INTERVAL_SECONDS": "0.1"}
    with hosting(None, *named, "--max-queue", "0", **places, MLXCTL_ENGINE_MAX_ROWS="1") as server:
        yield server


def test_requests_beyond_the_model_queue_are_refused(narrow: HostedServer) -> None:
    """One model in memory, in use; one request may wait."""
    server = narrow
    with ThreadPoolExecutor(2) as pool:
        body = {
            "model": "endless",
            "messages": [{"role": "user", "content": "hi"}],
            "max_tokens": 20_000,
            "stream": True,
        }
        with httpx.stream("POST", f"{server.url}/v1/chat/completions", json=body, timeout=60) as first:
            lines = first.iter_lines()
            next(lines)
            waiting = pool.submit(ask, server, "qwen3")
            wait_for(lambda: pool_stats(server)["num_waiting"] == 1, seconds=20)
            for path in ("/v1/chat/completions", "/v1/messages"):
                refused = httpx.post(
                    f"{server.url}{path}", json={**body, "model": "llama3", "max_tokens": 4}, timeout=30
                )
                assert (refused.status_code, int(refused.headers["retry-after"]) >= 1) == (429, True), (
                    refused.text
                )
            first.close()
        assert waiting.result().status_code == 200
        assert ask(server, "llama3").status_code == 200


def test_stream_of_an_unloaded_library_model_gets_pings(narrow: HostedServer) -> None:
    body = {"messages": [{"role": "user", "content": "hi"}], "stream": True}
    chat = f"{narrow.url}/v1/chat/completions"
    long, short = (
        {**body, "model": "endless", "max_tokens": 20_000},
        {**body, "model": "lfm2", "max_tokens": 4},
    )
    with httpx.stream("POST", chat, json=long, timeout=60) as first:
        # Pings come before, while the model is loaded.
        next(line for line in first.iter_lines() if line.startswith("data:"))
        with httpx.stream("POST", chat, json=short, timeout=60) as second:
            lines = second.iter_lines()
            received = [next(lines) for _ in range(2)]
            first.close()
            rest = [line for line in lines if line]
    assert received == [": ping", ""]
    assert rest[-1] == "data: [DONE]"
