"""Files with keys and passwords that other users can read."""

import subprocess
import sys
from pathlib import Path

import pytest

from mlxctl.state.settings import PolicySettings, ServerSettings, Settings, resolve
from mlxctl.state.settings.secret_files import exposed_files


@pytest.mark.parametrize(
    ("text", "mode", "is_exposed"),
    [
        ('[server]\napi_keys = ["k"]', 0o644, True),
        ('[server]\napi_keys = ["k"]', 0o640, True),
        ('[server]\napi_keys = ["k"]', 0o600, False),
        ('[policy]\npassphrase = "p"', 0o644, True),
        ('[telemetry]\nheaders = {authorization = "Bearer k"}', 0o644, True),
        ("[server]\nport = 1\napi_keys = []", 0o644, False),
    ],
)
def test_settings_file_with_keys_is_for_its_owner(
    tmp_path: Path, text: str, mode: int, is_exposed: bool
) -> None:
    file = tmp_path / "mlxctl.toml"
    file.write_text(text)
    file.chmod(mode)
    found = list(exposed_files(resolve(config_file=file, environment={}), file))
    assert found == ([file] if is_exposed else [])


def test_files_that_the_settings_name_are_for_their_owner(tmp_path: Path) -> None:
    names = ("keys", "tls.key", "password", "passphrase")
    keys, tls_key, password, passphrase = files = [tmp_path / name for name in names]
    for file in files:
        file.write_text("secret")
        file.chmod(0o644)
    settings = Settings(
        server=ServerSettings(api_key_file=keys, tls_key=tls_key, tls_key_password_file=password),
        policy=PolicySettings(passphrase_file=passphrase),
    )
    missing = tmp_path / "missing.toml"
    assert list(exposed_files(settings, missing)) == files
    for file in files:
        file.chmod(0o600)
    assert list(exposed_files(settings, missing)) == []


def test_file_of_another_user_is_that_users_business(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # As secrets that Docker or Kubernetes mounts.
    file = tmp_path / "keys"
    file.write_text("secret")
    file.chmod(0o644)
    monkeypatch.setattr("mlxctl.state.settings.secret_files.os.getuid", lambda: 54321)
    settings = Settings(server=ServerSettings(api_key_file=file))
    assert list(exposed_files(settings, tmp_path / "missing.toml")) == []


def test_serve_names_the_file_and_the_fix(tmp_path: Path) -> None:
    file = tmp_path / "my keys.toml"
    file.write_text('[server]\napi_keys = ["secret-4711"]')
    file.chmod(0o644)
    command = [sys.executable, "-m", "mlxctl", "serve", str(tmp_path / "no-model"), "--config", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stderr.splitlines()[0] == (
        f"mlxctl: other users can read the keys in '{file}'; fix: chmod 600 '{file}'"
    )
    assert "secret-4711" not in done.stdout + done.stderr
