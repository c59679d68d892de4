"""Precedence of setting sources, and errors."""

from pathlib import Path
from typing import Any

import pytest

from mlxctl.ir.errors import SettingsError
from mlxctl.state.settings import Settings, resolve


@pytest.fixture(autouse=True)
def _empty_config_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mlxctl.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_defaults_without_any_source() -> None:
    assert resolve(environment={}) == Settings()


def test_later_sources_override_earlier_ones(tmp_path: Path) -> None:
    path = written(tmp_path, '[server]\nhost = "a"\nport = 1\nmax_queue = 1\n')
    environment = {"MLXCTL_SERVER_PORT": "2", "MLXCTL_SERVER_MAX_QUEUE": "2"}
    server = resolve(config_file=path, environment=environment, flags={"server": {"max_queue": 3}}).server
    assert (server.host, server.port, server.max_queue) == ("a", 2, 3)


def test_default_settings_file_is_read_if_present(tmp_path: Path) -> None:
    (tmp_path / "config" / "mlxctl").mkdir(parents=True)
    written(tmp_path / "config" / "mlxctl", "[engine]\nmax_rows = 4\n")
    assert resolve(environment={}).engine.max_rows == 4


def test_environment_variable_names_the_settings_file(tmp_path: Path) -> None:
    path = written(tmp_path, '[model]\nname = "house"\n')
    assert resolve(environment={"MLXCTL_CONFIG": str(path)}).model.name == "house"


def test_missing_flags_do_not_override_the_environment() -> None:
    environment = {"MLXCTL_SERVER_PORT": "9", "MLXCTL_SERVER_API_KEYS": "one"}
    server = resolve(environment=environment, flags={"server": {"port": None, "api_keys": []}}).server
    assert (server.port, server.api_keys) == (9, ("one",))


@pytest.mark.parametrize(
    ("written_size", "num_bytes"),
    [
        (4096, 4096),
        ('"8GB"', 8 * 10**9),
        ('"512MiB"', 512 * 2**20),
        ('"1.5 gib"', 3 * 2**29),
        ('"2048"', 2048),
    ],
)
def test_sizes_accept_units(tmp_path: Path, written_size: object, num_bytes: int) -> None:
    path = written(tmp_path, f"[engine]\nmemory_limit_bytes = {written_size}\n")
    assert resolve(config_file=path, environment={}).engine.memory_limit_bytes == num_bytes


def test_kv_bits_by_name_accepts_numbers(tmp_path: Path) -> None:
    path = written(tmp_path, "[model]\nkv_bits = 8\n[pool.kv_bits_by_name]\nqwen = 4\n")
    found = resolve(config_file=path, environment={})
    assert (found.model.kv_bits, found.pool.kv_bits_by_name) == ("8", {"qwen": "4"})


@pytest.mark.parametrize(
    "given",
    [
        {"environment": {"MLXCTL_SERVER_TIMEOUTS": "chat=2.5,admin=60"}},
        {"environment": {}, "flags": {"server": {"timeouts": ["chat=2.5", "admin=60"]}}},
    ],
    ids=["environment", "flags"],
)
def test_timeouts_are_numbers_by_endpoint(given: dict[str, Any]) -> None:
    assert resolve(**given).server.timeouts == {"chat": 2.5, "admin": 60.0}


def test_environment_lists_are_split_at_commas() -> None:
    server = resolve(environment={"MLXCTL_SERVER_CORS_ORIGINS": "http://a, http://b"}).server
    assert server.cors_origins == ("http://a", "http://b")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[server]\nprot = 1\n", "unknown key 'server.prot' in .*; did you mean port"),
        ("[sever]\nport = 1\n", "unknown section 'sever' in .*; did you mean server"),
        ("port = 1\n", "unknown section 'port' in .*; known: server, engine"),
        ("server = 1\n", "'server' in .* must be a table"),
        ('[server]\nport = "eighty"\n', "'server.port' in .*expected a whole number, got 'eighty'"),
        ("[server]\nport = 70000\n", "'server.port' in .*expected at most 65535"),
        ("[server]\nport = 80.5\n", "'server.port' in .*expected a whole number"),
        ("[server]\nport = true\n", "'server.port' in .*expected a whole number"),
        ('[server]\nlog_level = "loud"\n', "'server.log_level' in .*expected one of debug, info"),
        ("[server]\nping_interval_seconds = nan\n", "'server.ping_interval_seconds' in .*expected a number"),
        ("[server]\ncors_origins = [1]\n", "'server.cors_origins' in .*expected a list of texts"),
        ('[engine]\nmemory_limit_bytes = "8 apples"\n', "'engine.memory_limit_bytes' in .*expected a size"),
        ("[model]\ntrust_remote_code = 3\n", "'model.trust_remote_code' in .*expected true or false"),
        ("[model]\nkv_bits = 6\n", "'model.kv_bits' in .*expected one of full, 8, 4, config, got 6"),
        ("[model]\nkv_group_size = true\n", "'model.kv_group_size' in .*expected one of 32, 64, 128"),
        (
            '[pool.kv_bits_by_name]\nqwen = "2"\n',
            "'pool.kv_bits_by_name' in .*expected one of full, 8, 4, config",
        ),
        ("[server.timeouts]\nchats = 3\n", "'server.timeouts' in .*expected names of chat, .*got 'chats'"),
        ("[server]\nmax_queue = 99999999999999999999\n", "server.max_queue.* at most 9223372036854775807"),
        ("[server.timeouts]\nchat = 0\n", "'server.timeouts' in .*expected at least 0.001"),
        ("[server\n", "cannot be read"),
    ],
)
def test_invalid_setting_error_names_key_and_file(tmp_path: Path, text: str, message: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(SettingsError, match=message) as caught:
        resolve(config_file=path, environment={})
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(("names", "flag"), [({}, "--max-queue"), ({"max_queue": "--queue"}, "--queue")])
def test_invalid_flag_error_names_the_flag(names: dict[str, str], flag: str) -> None:
    with pytest.raises(SettingsError, match=f"^{flag}: expected at least 0, got -1"):
        resolve(environment={}, flags={"server": {"max_queue": -1}}, flag_names=names)


def test_explicit_settings_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"nowhere\.toml' does not exist"):
        resolve(config_file=tmp_path / "nowhere.toml", environment={})


@pytest.mark.parametrize("variable", ["MLXCTL_SERVER_PROT", "MLXCTL_SERVR_PORT"])
def test_unknown_environment_variable_is_rejected(variable: str) -> None:
    with pytest.raises(SettingsError, match=f"{variable} names no setting; did you mean MLXCTL_SERVER_PORT"):
        resolve(environment={variable: "1"})


def test_variables_that_are_no_settings_are_ignored() -> None:
    others = ("API_KEY", "ADMIN_KEY", "CLIENT_CERT", "TEST_CACHE", "URL")

    assert resolve(environment={f"MLXCTL_{name}": "1" for name in others}) == Settings()


def test_api_keys_are_never_shown(tmp_path: Path) -> None:
    settings = resolve(environment={"MLXCTL_SERVER_API_KEYS": "hush-hush"})
    path = written(tmp_path, '[server]\napi_keys = ["hush-hush", 3]\n')
    with pytest.raises(SettingsError) as caught:
        resolve(config_file=path, environment={})
    assert settings.server.api_keys == ("hush-hush",)
    assert "hush" not in repr(settings) + str(caught.value)
