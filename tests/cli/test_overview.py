"""`mlxctl` without arguments: what runs here, and what to do next."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from mlxctl.cli import app
from mlxctl.state import locations
from mlxctl.state.stores.server_cards import CardFile, ServedDirectory, ServerCard


@pytest.fixture(autouse=True)
def new_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))


def overview() -> str:
    result = CliRunner().invoke(app, [])
    assert result.exit_code == 0
    return result.output


def test_new_user_is_shown_the_demo_and_where_models_are_found() -> None:
    shown = overview()
    assert "server  none is running" in shown
    assert "models  none on this machine yet" in shown
    assert "mlxctl models recommend" in shown


def test_models_of_the_library_are_offered_to_be_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("alpha", "beta", "delta", "gamma\x1b[31m"):
        (tmp_path / "models" / name).mkdir(parents=True)
        (tmp_path / "models" / name / "config.json").write_text("{}")
        (tmp_path / "models" / name / "model.safetensors").touch()
    monkeypatch.setenv("MLXCTL_LIBRARY_MODELS_DIRS", str(tmp_path / "models"))
    shown = overview()
    assert "models  alpha, beta, delta and 1 more" in shown
    assert "mlxctl serve alpha " in shown
    assert "\x1b" not in shown


def test_running_server_is_named_with_its_models() -> None:
    card = CardFile(locations.server_cards_directory(), port=8080)
    card.write(
        ServerCard(pid=1, url="http://127.0.0.1:8080", models=(ServedDirectory(name="alpha", path="/x"),))
    )
    shown = overview()
    card.close()
    assert "server  http://127.0.0.1:8080  alpha" in shown
    assert "mlxctl launch claude" in shown


def test_broken_settings_do_not_hide_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLXCTL_SERVER_PORT", "nowhere")
    shown = overview()
    assert "nowhere" in shown
    assert "mlxctl doctor" in shown
