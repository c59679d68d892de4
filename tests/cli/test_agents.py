"""`mlxctl agents` with a real server, and shell completion of agent ids."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner
from server.hosted import HostedServer, hosting

from mlxctl.cli import app
from tests import tiny_models
from tests.cli.test_completion import complete

runner = CliRunner()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostedServer]:
    """A server with the state directory of this process."""
    home = tmp_path_factory.mktemp("state")
    with hosting(tiny_models.model("endless"), XDG_STATE_HOME=str(home)) as running:
        yield running


@pytest.fixture
def pair(server: HostedServer) -> Iterator[HostedServer]:
    """The server with two agents, one of which has messages."""
    for name in ("reviewer", "writer"):
        made = {"id": name, "model": "tiny", "instructions": "Be\x1b[2J brief."}
        httpx.post(f"{server.url}/v1/agents", json=made, timeout=30).raise_for_status()
    turn = {"messages": [{"role": "user", "content": "Hello there"}], "max_tokens": 4, "temperature": 0}
    httpx.post(f"{server.url}/v1/agents/reviewer/generate", json=turn, timeout=60).raise_for_status()
    yield server
    for name in ("reviewer", "writer"):
        httpx.delete(f"{server.url}/v1/agents/{name}", timeout=30)


def run(server: HostedServer, *arguments: str, code: int = 0) -> str:
    result = runner.invoke(app, ["agents", *arguments, "--url", server.url])
    assert result.exit_code == code, result.output
    return result.output


def test_agents_ls_shows_context_length_and_cached_tokens(pair: HostedServer) -> None:
    head, *rows = (line.split() for line in run(pair, "ls").splitlines())
    assert head == ["agent", "model", "status", "messages", "context", "cached", "used"]
    assert [row[:4] for row in rows] == [["reviewer", "tiny", "hot", "2"], ["writer", "tiny", "cold", "0"]]
    listed = json.loads(run(pair, "ls", "--json"))
    assert [(agent["id"], agent["num_messages"]) for agent in listed] == [("reviewer", 2), ("writer", 0)]


def test_agents_show_escapes_control_characters(pair: HostedServer) -> None:
    lines = run(pair, "show", "reviewer").splitlines()
    assert "instructions:" in lines
    assert "Be␛[2J brief." in lines
    assert lines[lines.index("user:") + 1] == "Hello there"
    assert [
        message["role"] for message in json.loads(run(pair, "show", "reviewer", "--json"))["messages"]
    ] == ["user", "assistant"]


def test_agents_show_prints_thinking_and_text_as_text(pair: HostedServer) -> None:
    earlier = {"role": "assistant", "content": "Good day.", "reasoning_content": "A greeting."}
    turn = {"messages": [earlier, {"role": "user", "content": "And now?"}], "max_tokens": 4}
    httpx.post(f"{pair.url}/v1/agents/writer/generate", json=turn, timeout=60).raise_for_status()
    assert "assistant:\n(thinking: A greeting.)\nGood day.\n" in run(pair, "show", "writer")


def test_agents_reset_and_rm_delete_messages_and_agent(pair: HostedServer) -> None:
    assert run(pair, "reset", "reviewer") == "reset reviewer\n"
    assert json.loads(run(pair, "show", "reviewer", "--json"))["messages"] == []
    assert run(pair, "rm", "reviewer", "writer") == "deleted reviewer\ndeleted writer\n"
    assert "no agents" in run(pair, "ls")


def test_unknown_agent_is_a_one_line_error(pair: HostedServer) -> None:
    output = run(pair, "show", "unknown", code=1)
    assert "'unknown'" in output
    assert output.endswith("`mlxctl agents ls` lists them\n")


def test_completion_lists_stored_agent_ids(pair: HostedServer) -> None:
    assert complete("mlxctl agents show ") == ["reviewer", "writer"]
    assert complete("mlxctl agents rm reviewer w") == ["writer"]


def test_completion_without_agents_lists_nothing_and_creates_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert complete("mlxctl agents show ") == []
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "mlxctl").mkdir()
    (tmp_path / "mlxctl" / "agents.sqlite").write_text("no database")
    assert complete("mlxctl agents show ") == []
