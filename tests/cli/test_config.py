"""`mlxctl config`: the settings file and the settings that hold."""

import json
import resource
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from mlxctl.cli import app
from mlxctl.state.settings import Settings, resolve

runner = CliRunner()


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of a settings file that does not exist yet."""
    path = tmp_path / "sub" / "mlxctl.toml"
    monkeypatch.setenv("MLXCTL_CONFIG", str(path))
    return path


def test_the_new_file_has_every_setting_commented_out(file: Path) -> None:
    made = runner.invoke(app, ["config", "init"])
    assert (made.exit_code, made.stdout.strip(), file.stat().st_mode & 0o777) == (0, str(file), 0o600)
    assert resolve(config_file=file, environment={}) == Settings()
    assert "# port = 8080" in file.read_text()


def test_the_commented_defaults_are_valid_when_the_comment_sign_is_removed(file: Path) -> None:
    runner.invoke(app, ["config", "init"])
    lines = [line.removeprefix("# ") if " = " in line else line for line in file.read_text().splitlines()]
    file.write_text("\n".join(line for line in lines if not line.endswith(" =")))
    assert resolve(config_file=file, environment={}) == Settings()


def test_values_of_an_existing_file_are_kept(file: Path) -> None:
    file.parent.mkdir()
    file.write_text('[server]\nport = 9000\n[library.aliases]\n"my model" = "org/a"\n')
    before = resolve(config_file=file, environment={})
    assert runner.invoke(app, ["config", "init"]).exit_code == 0
    assert resolve(config_file=file, environment={}) == before
    assert {"port = 9000", '# host = "127.0.0.1"'} <= set(file.read_text().splitlines())
    assert runner.invoke(app, ["models", "alias", "--remove", "my model"]).exit_code == 0


def test_comments_of_an_existing_file_are_kept_without_force(file: Path) -> None:
    file.parent.mkdir()
    file.write_text("[server]\nport = 9000  # mine\n")
    refused = runner.invoke(app, ["config", "init"])
    assert refused.exit_code == 1
    assert "--force" in refused.stderr
    assert file.read_text() == "[server]\nport = 9000  # mine\n"
    assert runner.invoke(app, ["config", "init", "--force"]).exit_code == 0
    assert file.with_name("mlxctl.toml.bak").read_text() == "[server]\nport = 9000  # mine\n"
    assert resolve(config_file=file, environment={}).server.port == 9000


def test_an_existing_file_is_kept_when_the_disk_is_full(file: Path) -> None:
    file.parent.mkdir()
    file.write_text("[server]\nport = 9000\n")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        refused = runner.invoke(app, ["config", "init", "--force"])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (refused.exit_code, "cannot be written" in refused.stderr) == (1, True)
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    assert file.read_text() == "[server]\nport = 9000\n"


def test_show_prints_the_changed_settings_and_hides_keys(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.parent.mkdir()
    file.write_text('[server]\nport = 9000\napi_keys = ["very-secret"]\n')
    monkeypatch.setenv("MLXCTL_ENGINE_MAX_ROWS", "4")
    shown = runner.invoke(app, ["config", "show", "--changed"]).stdout
    assert tomllib.loads(shown) == {
        "server": {"port": 9000, "api_keys": "(hidden)"},
        "engine": {"max_rows": 4},
    }
    monkeypatch.delenv("MLXCTL_ENGINE_MAX_ROWS")
    file.write_text("")
    assert runner.invoke(app, ["config", "show", "--changed"]).stdout == "# every setting has its default\n"
    as_json = json.loads(runner.invoke(app, ["config", "show", "--json"]).stdout)
    assert as_json["server"]["host"] == "127.0.0.1"


def test_a_broken_file_is_named_with_its_fault(file: Path) -> None:
    file.parent.mkdir()
    file.write_text("[server]\nporrt = 1\n")
    shown = runner.invoke(app, ["config", "show"])
    assert shown.exit_code == 2
    assert "server.porrt" in shown.stderr
