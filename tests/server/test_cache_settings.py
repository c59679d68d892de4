"""GET and PATCH /admin/cache, on a running server."""

import json
import secrets
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from mlxctl.cli import app
from mlxctl.state.settings import EngineSettings, ServerSettings

from .conftest import unstarted_app
from .process import ServerProcess

PATH = "/admin/cache"


@pytest.fixture
def settings(server: ServerProcess) -> Iterator[dict[str, Any]]:
    """The settings of the shared server, restored at the end."""
    before: dict[str, Any] = httpx.get(f"{server.url}{PATH}").json()
    yield before
    httpx.patch(f"{server.url}{PATH}", json=before).raise_for_status()


def change(server: ServerProcess, **values: Any) -> dict[str, Any]:
    changed: dict[str, Any] = httpx.patch(f"{server.url}{PATH}", json=values).raise_for_status().json()
    return changed


def stats(server: ServerProcess) -> dict[str, Any]:
    found: dict[str, Any] = httpx.get(f"{server.url}/stats").json()
    return found


def count_cached_tokens(server: ServerProcess, text: str) -> int:
    body = {"model": "tiny", "messages": [{"role": "user", "content": text}], "max_tokens": 1}
    answer = httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=30).raise_for_status()
    num_cached: int = answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"]
    return num_cached


def test_smaller_cache_evicts_at_once(server: ServerProcess, settings: dict[str, Any]) -> None:
    for _ in range(3):
        count_cached_tokens(server, f"{secrets.token_hex(8)} tells of the sea. " * 20)
    before = stats(server)

    changed = change(server, prefix_cache_bytes=before["cache_bytes"] // 2)

    after = stats(server)
    assert changed == settings | {"prefix_cache_bytes": before["cache_bytes"] // 2}
    assert after["cache_max_bytes"] == before["cache_bytes"] // 2
    assert after["cache_bytes"] <= after["cache_max_bytes"] < before["cache_max_bytes"]
    assert after["cache_evicted"] > before["cache_evicted"]


@pytest.mark.usefixtures("settings")
def test_ttl_of_zero_stores_nothing_from_then_on(server: ServerProcess) -> None:
    text = f"{secrets.token_hex(8)} tells of the hills. " * 4
    change(server, cache_ttl_seconds=0)
    assert [count_cached_tokens(server, text) for _ in range(2)] == [0, 0]
    change(server, cache_ttl_seconds=None)
    assert [count_cached_tokens(server, text) > 0 for _ in range(2)] == [False, True]


def test_quantization_of_new_entries_changes(server: ServerProcess, settings: dict[str, Any]) -> None:
    text = f"{secrets.token_hex(8)} tells of the woods. " * 20
    count_cached_tokens(server, text)
    changed = change(server, prefix_cache_bits=8, prefix_cache_group_size=32, prefix_cache_exact_tokens=0)

    assert changed == settings | {
        "prefix_cache_bits": "8",
        "prefix_cache_group_size": "32",
        "prefix_cache_exact_tokens": 0,
    }
    assert stats(server)["prefix_cache_bits"] == 8
    assert count_cached_tokens(server, text) > 0


@pytest.mark.usefixtures("settings")
def test_command_line_shows_and_changes(server: ServerProcess) -> None:
    def run(*arguments: str) -> str:
        return CliRunner().invoke(app, ["cache", "settings", *arguments, "--url", server.url]).output

    assert "cache_disk_ttl_seconds=60.0" in run("cache_disk_ttl_seconds=60")
    assert json.loads(run("--json"))["cache_disk_ttl_seconds"] == 60
    assert "cache_ttl_seconds" in run("cache_ttl_seconds=never")
    assert 'prefix_cache_bits="4"' in run("prefix_cache_bits=4")


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ({"prefix_cache_bytes": 0}, "prefix_cache_bytes"),
        ({"prefix_cache_bytes": 1 << 60}, "prefix_cache_bytes"),
        ({"prefix_cache_bytes": None}, "prefix_cache_bytes"),
        ({"prefix_cache_bits": 2}, "prefix_cache_bits"),
        ({"prefix_cache_bits": None}, "prefix_cache_bits"),
        ({"prefix_cache_group_size": 48}, "prefix_cache_group_size"),
        ({"prefix_cache_exact_tokens": -1}, "prefix_cache_exact_tokens"),
        ({"cache_ttl_seconds": -1}, "cache_ttl_seconds"),
        ({"cache_disk_ttl_seconds": "day"}, "cache_disk_ttl_seconds"),
        ({"cache_ttl": 3}, "cache_ttl"),
        ({}, "name a setting"),
    ],
)
def test_invalid_change_is_refused_by_name_without_effect(
    server: ServerProcess, settings: dict[str, Any], body: dict[str, Any], name: str
) -> None:
    sent = body | ({"cache_ttl_seconds": 9} if body and "cache_ttl_seconds" not in body else {})
    refused = httpx.patch(f"{server.url}{PATH}", json=sent)

    assert (refused.status_code, name in refused.json()["error"]["message"]) == (400, True)
    assert httpx.get(f"{server.url}{PATH}").json() == settings


def test_fields_are_those_of_the_settings_file(endless_model: Path) -> None:
    client = unstarted_app(endless_model, ServerSettings())
    schema = client.simulate_get("/openapi.json").json["components"]["schemas"]["CacheSettingsChange"]
    assert schema["properties"].keys() <= {field.name for field in fields(EngineSettings)}
    assert client.simulate_get(PATH).json["cache_disk_ttl_seconds"] == EngineSettings().cache_disk_ttl_seconds
