"""Commands use the model of a running server, whatever it is called."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from mlxctl.cli import app
from mlxctl.cli.running_server import server_with
from mlxctl.cli.served_directories import name_to_load, open_library
from mlxctl.library.demo import MODEL_DIR
from mlxctl.library.fingerprint import fingerprint
from mlxctl.state.settings import resolve
from mlxctl.state.stores import CapabilityStore, Finding
from tests.server.process import ServerProcess
from tests.state.stores.probe_records import record

runner = CliRunner()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, a copy, an alias, and a library of another model."""
    home = tmp_path_factory.mktemp("home")
    for name in ("models/Served-1B", "copy", "changed", "library/Other-1B"):
        shutil.copytree(MODEL_DIR, home / name)
    for name, temperature in (("changed", 0.1), ("library/Other-1B", 0.2)):
        (home / name / "generation_config.json").write_text(f'{{"temperature": {temperature}}}')
    (home / "mlxctl.toml").write_text(
        f'[library]\nmodels_dirs = ["{home}/library"]\n[library.aliases]\nquick = "{home}/models/Served-1B"\n'
    )
    return home


@pytest.fixture(scope="module")
def places(home: Path) -> dict[str, str]:
    config = home / "mlxctl.toml"
    # The server is found by its card, not at the address of the settings.
    return {
        "XDG_STATE_HOME": str(home),
        "MLXCTL_CONFIG": str(config),
        "HF_HUB_CACHE": str(home / "hub"),
        "MLXCTL_SERVER_PORT": "1",
    }


@pytest.fixture(scope="module")
def server(places: dict[str, str], home: Path) -> Iterator[ServerProcess]:
    """A server of one directory, and of the library."""
    named = (str(home / "models" / "Served-1B"), "--any-library-model")
    running = ServerProcess(*named, environment=places)
    try:
        running.wait_ready()
        yield running
    finally:
        running.kill()


@pytest.fixture(autouse=True)
def as_user(places: dict[str, str], home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands in this process are those of the user."""
    monkeypatch.chdir(home)
    for name, value in places.items():
        monkeypatch.setenv(name, value)


def chosen_model(given: str) -> str | None:
    """Return the server's model that `run` and `chat --model` use."""

    async def name() -> str | None:
        backend = server_with(given, resolve(environment=os.environ), api_key=None, is_quiet=False)
        if backend is None:
            return None
        model = await backend.open()
        await backend.close()
        return model.name

    return asyncio.run(name())


def cards(server: ServerProcess) -> dict[str, dict[str, Any]]:
    return {card["id"]: card for card in httpx.get(f"{server.url}/v1/models").json()["data"]}


def test_a_chat_without_a_model_uses_that_of_the_server(server: ServerProcess) -> None:
    command = [sys.executable, "-m", "mlxctl", "chat", "Hello!"]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout == "Hello! How can I help you?\n"
    assert f"mlxctl: using the server at {server.url}; --local loads the model here\n" in done.stderr


@pytest.mark.parametrize("given", ["Served-1B", "models/Served-1B", "./copy", "~+"])
def test_a_served_model_is_recognized_by_name_path_and_copy(
    server: ServerProcess, home: Path, given: str
) -> None:
    assert server.url
    assert chosen_model(given.replace("~+", str(home / "copy"))) == "Served-1B"


def test_a_model_of_the_library_is_recognized_by_path_and_short_name(server: ServerProcess) -> None:
    assert list(cards(server)) == ["Served-1B", "quick", "Other-1B"]
    assert [chosen_model(given) for given in ("quick", "library/Other-1B")] == ["quick", "Other-1B"]


def test_other_commands_know_the_name_that_the_server_prints(server: ServerProcess, home: Path) -> None:
    assert server.url
    known = json.loads(runner.invoke(app, ["models", "info", "Served-1B", "--json"]).stdout)
    assert known["path"] == str((home / "models" / "Served-1B").resolve())
    (row,) = json.loads(runner.invoke(app, ["models", "fit", "Served-1B", "--json"]).stdout)
    assert row["model"] == "Served-1B"
    assert "never probed; to probe it" in runner.invoke(app, ["probe", "--show", "Served-1B"]).stderr


def test_a_second_load_beside_the_server_is_named(
    server: ServerProcess, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert chosen_model("changed") is None
    assert f"loading changed here, beside the server at {server.url}; --url" in capsys.readouterr().err
    path = name_to_load("Served-1B", open_library(None), is_quiet=False)
    assert path == str((home / "models" / "Served-1B").resolve())
    again = f"mlxctl: loading Served-1B a second time, beside the server at {server.url}\n"
    assert capsys.readouterr().err == again


def test_files_that_changed_since_they_were_loaded_are_another_model(
    server: ServerProcess, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = home / "models" / "Served-1B" / "generation_config.json"
    before = file.read_bytes()
    file.write_text('{"temperature": 0.5}')
    assert chosen_model("models/Served-1B") is None
    file.write_bytes(before)
    expected = f"the files of models/Served-1B have changed since the server at {server.url} loaded them"
    assert expected in capsys.readouterr().err


def test_models_of_the_library_are_listed_after_those_that_are_served(server: ServerProcess) -> None:
    facts = [(card["from_library"], card["state"]) for card in cards(server).values()]
    assert facts == [(False, "loaded"), (False, "loaded"), (True, "not_loaded")]
    tags = httpx.get(f"{server.url}/api/tags").json()["models"]
    assert [tag["name"] for tag in tags] == ["Served-1B", "quick", "Other-1B"]


def test_results_of_a_probe_reach_the_running_server(server: ServerProcess, home: Path) -> None:
    before = cards(server)["Served-1B"]
    assert (before["supports_tools"], before["probed"]) == (True, None)
    store = CapabilityStore(home / "mlxctl" / "capabilities.sqlite")
    found = Finding(question="tools", verdict="no", reason="it calls no tool")
    store.save(record(found, fingerprint=fingerprint(home / "models" / "Served-1B")))
    store.close()
    after = cards(server)["Served-1B"]
    assert (after["supports_tools"], after["probed"]) == (False, {"tools": "no"})
