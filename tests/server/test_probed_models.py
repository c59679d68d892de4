"""Probed capabilities in a server; without them, detection from files."""

import shutil
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest

from mlxctl.ir.models import ProbeVerdict, media_support
from mlxctl.library import demo
from mlxctl.library.fingerprint import fingerprint
from mlxctl.state.stores import QUESTIONS, CapabilityStore, Finding
from tests import tiny_models
from tests.state.stores.probe_records import record

from .hosted import HostedServer, hosting
from .process import ServerProcess, is_alive, wait_for

TOOL = {
    "type": "function",
    "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {}}},
}
NO_TOOLS = Finding(question="tools", verdict="no", reason="it calls no tool")


@pytest.fixture
def store_file(tmp_path: Path) -> Path:
    """A store in which the demo model does not call tools.

    Unlike its files.
    """
    file = tmp_path / "mlxctl" / "capabilities.sqlite"
    store = CapabilityStore(file)
    others = (
        Finding(question=question, verdict="unknown", reason="")
        for question in QUESTIONS
        if question != "tools"
    )
    store.save(record(NO_TOOLS, *others, fingerprint=fingerprint(demo.MODEL_DIR)))
    store.close()
    return file


def ask_with_tools(server: HostedServer) -> httpx.Response:
    body = {
        "model": "tiny",
        "messages": [{"role": "user", "content": "Hello!"}],
        "tools": [TOOL],
        "max_tokens": 8,
    }
    return httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=30)


def listed(server: HostedServer | ServerProcess) -> Any:
    return httpx.get(f"{server.url}/v1/models").json()["data"][0]


def test_probed_capabilities_and_overrides_decide_the_offer(
    store_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    state = store_file.parents[1]
    (state / "mlxctl" / "capabilities.toml").write_text("[tiny]\nmax_tokens = 100\n")
    directory = shutil.copytree(demo.MODEL_DIR, state / "model")
    places = {"XDG_STATE_HOME": str(state), "XDG_CONFIG_HOME": str(state)}
    with caplog.at_level("INFO"), hosting(directory, "--probe-unknown", **places) as server:
        model = listed(server)
        assert (model["supports_tools"], model["max_model_len"]) == (False, 100)
        assert (model["probed"]["tools"], model["probed"]["practical_context"]) == ("no", "yes")
        assert ask_with_tools(server).status_code == 400
        prompt = {"model": "tiny", "messages": [{"role": "user", "content": "Hello! " * 100}]}
        too_long = httpx.post(f"{server.url}/v1/chat/completions", json=prompt).json()["error"]
        assert (too_long["code"], "> 100 maximum" in too_long["message"]) == ("context_length_exceeded", True)
    assert ("never probed" in caplog.text, "probing" in caplog.text) == (False, False)


def test_store_of_a_newer_version_is_a_warning(store_file: Path, caplog: pytest.LogCaptureFixture) -> None:
    connection = sqlite3.connect(store_file)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    model = shutil.copytree(demo.MODEL_DIR, store_file.parent / "model")
    places = {"XDG_STATE_HOME": str(store_file.parents[1])}
    with caplog.at_level("INFO"), hosting(model, **places) as server:
        assert (listed(server)["supports_tools"], listed(server)["probed"]) == (True, None)
        assert ask_with_tools(server).status_code == 200
    assert caplog.text.count("newer mlxctl") == 1
    assert caplog.text.count("was never probed") == 1


@pytest.mark.parametrize(
    ("verdicts", "images", "expected"),
    [
        ({}, False, (False, False, False)),
        ({}, True, (True, None, None)),
        ({"vision": "yes", "multi_image": "yes", "video": "no"}, True, (True, True, False)),
        ({"vision": "no", "video": "unknown"}, True, (False, None, None)),
        ({"vision": "yes", "video": "yes"}, False, (False, False, False)),
    ],
)
def test_probing_decides_which_media_are_supported(
    verdicts: dict[str, ProbeVerdict], images: bool, expected: tuple[bool | None, ...]
) -> None:
    found = media_support(verdicts, images=images, audio=False)
    names = ("supports_vision", "supports_multi_image", "supports_video")
    assert tuple(found[name] for name in names) == expected


def embed(server: ServerProcess) -> httpx.Response:
    return httpx.post(f"{server.url}/v1/embeddings", json={"model": "tiny", "input": "hi"}, timeout=30)


def test_unknown_model_is_probed_before_its_first_use() -> None:
    model_directory = str(tiny_models.encoder("bert"))
    server = ServerProcess("--model", model_directory, "--name", "tiny", "--probe-unknown")
    wait_for(lambda: listed(server)["state"] == "probing", seconds=30)
    early = embed(server)
    server.wait_ready()
    answer, model = embed(server), listed(server)
    server.kill()
    assert (early.status_code, early.json()["error"]["code"]) == (503, "model_loading")
    assert "probed before its first use" in early.json()["error"]["message"]
    assert answer.status_code == 200
    assert model["probed"]["embeddings"] == "yes"


def test_end_of_the_server_ends_a_running_probe(tmp_path: Path) -> None:
    unknown = shutil.copytree(demo.MODEL_DIR, tmp_path / "unknown")
    server = ServerProcess("--model", str(unknown), "--probe-unknown")
    probes: list[int] = []

    def is_probing() -> bool:
        found = subprocess.run(
            ["pgrep", "-P", str(server.process.pid), "-f", "mlxctl probe"], capture_output=True, check=False
        )
        probes[:] = map(int, found.stdout.split())
        return bool(probes)

    wait_for(is_probing, seconds=30)
    assert server.stop() == 0
    wait_for(lambda: not is_alive(probes[0]), seconds=30)
    server.kill()
