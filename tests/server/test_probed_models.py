"""Probed capabilities in a server; without them, detection from files."""

import sqlite3
from pathlib import Path
from typing import Any

import httpx
import pytest
from stores.probe_records import record

from mlxctl import demo
from mlxctl.models.fingerprint import fingerprint
from mlxctl.stores import CapabilityStore, Finding

from .process import ServerProcess, serving

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
    store.save(record(NO_TOOLS, fingerprint=fingerprint(demo.MODEL_DIR)))
    store.close()
    return file


def ask_with_tools(server: ServerProcess) -> httpx.Response:
    body = {
        "model": "tiny",
        "messages": [{"role": "user", "content": "Hello!"}],
        "tools": [TOOL],
        "max_tokens": 8,
    }
    return httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=30)


def listed(server: ServerProcess) -> Any:
    return httpx.get(f"{server.url}/v1/models").json()["data"][0]


def standard_error_of(server: ServerProcess) -> str:
    """Return the whole standard error of an ended server."""
    server.stop()
    assert server.process.stderr is not None
    return server.process.stderr.read()


def test_probed_capabilities_and_overrides_decide_the_offer(store_file: Path) -> None:
    state = store_file.parents[1]
    (state / "mlxctl" / "capabilities.toml").write_text("[tiny]\nmax_tokens = 100\n")
    with serving(demo.MODEL_DIR, XDG_STATE_HOME=str(state), XDG_CONFIG_HOME=str(state)) as server:
        model = listed(server)
        assert (model["supports_tools"], model["max_model_len"]) == (False, 100)
        assert model["probed"] == {"tools": "no", "practical_context": "yes"}
        assert ask_with_tools(server).status_code == 400
        prompt = {"model": "tiny", "messages": [{"role": "user", "content": "Hello! " * 100}]}
        too_long = httpx.post(f"{server.url}/v1/chat/completions", json=prompt).json()["error"]
        assert (too_long["code"], "> 100 maximum" in too_long["message"]) == ("context_length_exceeded", True)
        assert "never probed" not in standard_error_of(server)


def test_store_of_a_newer_version_is_a_warning(store_file: Path) -> None:
    connection = sqlite3.connect(store_file)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with serving(demo.MODEL_DIR, XDG_STATE_HOME=str(store_file.parents[1])) as server:
        assert (listed(server)["supports_tools"], listed(server)["probed"]) == (True, None)
        assert ask_with_tools(server).status_code == 200
        log = standard_error_of(server)
    assert log.count("newer mlxctl") == 1
    assert log.count("was never probed") == 1
