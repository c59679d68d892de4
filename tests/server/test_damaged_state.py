"""A real server on damaged state files."""

import random
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server.hosted import HostedServer, hosting
from tests.state.stores.damage import flip_bits, replace_by_noise

WORDS = " ".join(f"word {number}" for number in range(200))
CHAT = {"model": "tiny", "messages": [{"role": "user", "content": WORDS}], "max_tokens": 8, "temperature": 0}


def serving_on(home: Path, model: Path) -> AbstractContextManager[HostedServer]:
    return hosting(model, XDG_STATE_HOME=str(home), XDG_CACHE_HOME=str(home))


def call(server: HostedServer, method: str, path: str, body: Any = None) -> httpx.Response:
    return httpx.request(method, f"{server.url}{path}", json=body, timeout=60)


def answer(server: HostedServer) -> str:
    reply = call(server, "POST", "/v1/chat/completions", CHAT)
    return str(reply.json()["choices"][0]["message"]["content"])


def test_server_starts_on_damaged_files_and_names_them(
    endless_model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home = tmp_path / "mlxctl"
    with serving_on(tmp_path, endless_model) as server:
        expected = answer(server)
        assert call(server, "POST", "/v1/agents", {"id": "one", "model": "tiny"}).status_code == 201
        body = {"model": "tiny", "input": "hi", "max_output_tokens": 2}
        kept = call(server, "POST", "/v1/responses", body).json()["id"]
    generator = random.Random(1)
    manifest = home / "prefixes" / "manifest.sqlite"
    manifest.write_bytes(manifest.read_bytes().replace(b"TABLE chunks", b"TABLE \xffhunks"))
    for damage, name in [
        (flip_bits, "prefixes/00000000.segment"),
        (replace_by_noise, "responses.sqlite"),
        (replace_by_noise, "capabilities.sqlite"),
    ]:
        (home / name).touch()
        damage(home / name, generator)

    with serving_on(tmp_path, endless_model) as server:
        assert answer(server) == expected
        assert call(server, "GET", f"/v1/responses/{kept}").status_code == 404
        assert call(server, "GET", "/v1/agents/one").status_code == 200

        # And while it runs: an empty store takes its place.
        with (home / "agents.sqlite").open("r+b") as file:
            file.write(generator.randbytes(30_000))
        lost = call(server, "GET", "/v1/agents/one")
        assert (lost.status_code, lost.json()["error"]["code"]) == (404, "not_found")
        assert str(tmp_path) not in lost.text
        assert call(server, "GET", "/v1/agents").json()["data"] == []
        assert answer(server) == expected
    set_aside = [line for line in caplog.messages if "set aside" in line]
    for name in ("manifest.sqlite", "responses.sqlite", "capabilities.sqlite", "agents.sqlite"):
        assert sum(f"{name}.damaged-" in line for line in set_aside) == 1
    assert not any(record.exc_info for record in caplog.records)
