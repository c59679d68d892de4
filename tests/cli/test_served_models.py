"""`mlxctl models` about a running server, and about the hub."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from mlxctl.cli import app
from tests.library.tiny_hub import TinyHub, running
from tests.server.hosted import hosting
from tests.server.process import ServerProcess

runner = CliRunner()


def test_models_are_listed_with_state_and_use(demo_server: ServerProcess) -> None:
    (row,) = json.loads(runner.invoke(app, ["models", "ps", "--json", "--url", demo_server.url]).stdout)
    assert (row["name"], row["state"], row["num_requests"]) == ("mlxctl-demo", "loaded", 0)
    assert "mlxctl-demo  loaded" in runner.invoke(app, ["models", "ps", "--url", demo_server.url]).stdout


def test_an_alias_is_a_further_name_in_the_row_of_its_model(tmp_path: Path) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text('[library.aliases]\nquick = "demo"\n')
    with hosting(None, "--config", str(settings)) as server:
        (row,) = json.loads(runner.invoke(app, ["models", "ps", "--json", "--url", server.url]).stdout)
        assert (row["name"], row["aliases"], row["num_requests"]) == ("mlxctl-demo", ["quick"], 0)
        shown = runner.invoke(app, ["models", "ps", "--url", server.url]).stdout
        assert "mlxctl-demo, quick  loaded" in shown


def test_a_model_is_pinned_unpinned_unloaded_and_loaded(demo_server: ServerProcess) -> None:
    def change(action: str) -> str:
        return runner.invoke(app, ["models", action, "mlxctl-demo", "--url", demo_server.url]).stdout.strip()

    assert change("pin") == "mlxctl-demo: loaded, pinned"
    assert change("unpin") == "mlxctl-demo: loaded"
    assert change("unload") == "mlxctl-demo: not loaded"
    assert change("load") == "mlxctl-demo: loaded"


def test_an_unknown_model_is_an_error_in_one_line(demo_server: ServerProcess) -> None:
    done = runner.invoke(app, ["models", "load", "nothing", "--url", demo_server.url])
    assert done.exit_code == 1
    assert "nothing" in done.stderr
    assert done.stderr.count("\n") == 1


def test_search_lists_repositories_of_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    with running(TinyHub(files={"org/small-4bit": {}})) as hub:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub.url)
        found = json.loads(runner.invoke(app, ["models", "search", "small", "--json"]).stdout)
    assert found == [
        {"repository": "org/small-4bit", "downloads": 7, "updated_at": "2026-01-02", "task": None}
    ]
    assert "filter=mlx&search=small" in hub.asked[0]


def test_a_hub_that_cannot_be_reached_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:1")
    done = runner.invoke(app, ["models", "search", "small"])
    assert done.exit_code == 1
    assert "the hub cannot be searched" in done.stderr
