"""Coding agents are pointed at a server by environment and arguments alone."""

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from mlxctl.cli.launch.clients import CLIENTS, Endpoint, write_files

ENDPOINT = Endpoint(url="http://127.0.0.1:8080", model="a/b", context_length=65_536, api_key="secret")


def test_claude_code_uses_one_model_for_every_role() -> None:
    plan = CLIENTS["claude"].plan(ENDPOINT)
    assert plan.environment["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:8080"
    assert plan.environment["ANTHROPIC_AUTH_TOKEN"] == "secret"
    assert {value for name, value in plan.environment.items() if name.endswith("_MODEL")} == {"a/b"}


def test_codex_gets_its_provider_as_toml_overrides() -> None:
    plan = CLIENTS["codex"].plan(ENDPOINT)
    overrides = tomllib.loads("\n".join(plan.arguments[1::2]))
    provider = overrides["model_providers"]["mlxctl"]
    assert (overrides["model"], provider["base_url"]) == ("a/b", "http://127.0.0.1:8080/v1")
    assert plan.environment[provider["env_key"]] == "secret"


def test_opencode_gets_its_configuration_in_the_environment() -> None:
    config = json.loads(CLIENTS["opencode"].plan(ENDPOINT).environment["OPENCODE_CONFIG_CONTENT"])
    assert config["model"] == "mlxctl/a/b"
    assert config["provider"]["mlxctl"]["models"]["a/b"]["limit"]["context"] == 65_536


def test_copilot_stays_offline_and_leaves_room_for_answers() -> None:
    environment = CLIENTS["copilot"].plan(ENDPOINT).environment
    assert environment["COPILOT_OFFLINE"] == "true"
    assert environment["COPILOT_PROVIDER_BASE_URL"] == "http://127.0.0.1:8080/v1"
    lengths = [int(environment[f"COPILOT_PROVIDER_MAX_{what}_TOKENS"]) for what in ("PROMPT", "OUTPUT")]
    assert sum(lengths) == 65_536


@pytest.mark.parametrize(
    ("context_length", "reserved"), [(8_192, 2_048), (65_536, 16_384), (262_144, 16_384)]
)
def test_pi_keeps_at_most_a_quarter_of_the_context_free(context_length: int, reserved: int) -> None:
    files = CLIENTS["pi"].plan(replace(ENDPOINT, context_length=context_length)).files
    compaction = json.loads(files["settings.json"])["compaction"]
    assert compaction["reserveTokens"] == reserved
    assert compaction["keepRecentTokens"] <= context_length // 4


def test_pi_reads_its_provider_from_a_private_directory(tmp_path: Path) -> None:
    plan = CLIENTS["pi"].plan(ENDPOINT)
    environment = write_files(plan, tmp_path / "pi")
    provider = json.loads((tmp_path / "pi" / "models.json").read_text())["providers"]["mlxctl"]
    assert environment["PI_CODING_AGENT_DIR"] == str(tmp_path / "pi")
    assert (provider["baseUrl"], (tmp_path / "pi").stat().st_mode & 0o777) == (
        "http://127.0.0.1:8080/v1",
        0o700,
    )


@pytest.mark.parametrize("name", CLIENTS)
def test_the_key_is_never_an_argument(name: str) -> None:
    assert "secret" not in " ".join(CLIENTS[name].plan(ENDPOINT).arguments)
