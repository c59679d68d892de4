"""`mlxctl cache` with a real server."""

import json
import re
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner
from server.hosted import HostedServer, hosting

from mlxctl.cli import app
from mlxctl.probe.image_check import one_color_png
from tests import tiny_models

SYSTEM = {"role": "system", "content": "You are a careful agent and read every file twice. " * 16}
runner = CliRunner()


@pytest.fixture(scope="module")
def server() -> Iterator[HostedServer]:
    vision_model = tiny_models.trained("pixtral_colors")
    with hosting(vision_model, "--api-key", "secret", "--cache-disk-bytes", "0") as running:
        yield running


@pytest.fixture
def filled(server: HostedServer) -> HostedServer:
    """The server with two conversations that share a prefix, and nothing else."""
    run(server, "clear")
    ask(server, "Tell me of boats")
    ask(server, "Tell me of hills")
    return server


def ask(server: HostedServer, question: str) -> None:
    answer = httpx.post(
        f"{server.url}/v1/chat/completions", json=body(question), headers={"x-api-key": "secret"}, timeout=60
    )
    answer.raise_for_status()


def body(question: str) -> dict[str, Any]:
    return {
        "model": "tiny",
        "messages": [SYSTEM, {"role": "user", "content": question}],
        "max_tokens": 4,
        "temperature": 0,
    }


def run(server: HostedServer, *arguments: str, key: str = "secret", code: int = 0) -> str:
    """Return the command's output on both streams."""
    result = runner.invoke(app, ["cache", *arguments, "--url", server.url, "--api-key", key])
    assert result.exit_code == code, result.output
    return result.output


def leaves(server: HostedServer) -> list[str]:
    """Return the keys that `ls` lists."""
    return [line.split()[0] for line in run(server, "ls").splitlines()[2:]]


def test_tree_shows_shared_prefix_once_and_both_branches(filled: HostedServer) -> None:
    lines = run(filled, "tree").splitlines()

    assert len(lines) == 4
    assert lines[0].startswith("tiny")
    assert "shared by 2" in lines[1]
    assert "Tell me of hills" in lines[2]
    assert "Tell me of boats" in lines[3]
    assert all(line == line.rstrip() for line in lines)


def test_ls_lists_conversations_and_json_lists_chunks(filled: HostedServer) -> None:
    chunks = json.loads(run(filled, "ls", "--json"))

    assert len(leaves(filled)) == 2
    assert {chunk["key"][:12] for chunk in chunks} >= set(leaves(filled))
    assert sum(chunk["parent"] is None for chunk in chunks) == 1


def test_show_prints_the_text_of_a_branch(filled: HostedServer) -> None:
    hills, boats = leaves(filled)

    assert "Tell me of hills" in run(filled, "show", hills)
    assert "Tell me of boats" in run(filled, "show", boats)
    assert "shared" in run(filled, "diff", hills, boats)


def test_stats_show_hits_and_tokens(filled: HostedServer) -> None:
    report = json.loads(run(filled, "stats", "--json"))

    assert report["cache_hits"]["common_prefix"] >= 1
    assert report["cache_tokens_reused"] > 100
    assert "tokens saved" in run(filled, "stats")


def test_explain_last_request(filled: HostedServer) -> None:
    ask(filled, "Tell me of rain")
    output = run(filled, "explain")
    (found,) = json.loads(run(filled, "explain", "--json"))

    assert "message_changed: in message 2 (user)" in output
    assert "Tell me of rain" in output
    assert found["divergence"]["there"].startswith("hills")


def test_explain_names_a_changed_image(server: HostedServer, tmp_path: Path) -> None:
    run(server, "clear")
    file = tmp_path / "request.json"
    for color in ((220, 30, 30), (30, 60, 220)):
        shown = {
            "type": "image_url",
            "image_url": {"url": f"data:image/png;base64,{b64encode(one_color_png(color)).decode()}"},
        }
        asked = {
            "model": "tiny",
            "messages": [SYSTEM, {"role": "user", "content": [shown]}],
            "max_tokens": 4,
        }
        file.write_text(json.dumps(asked))
        explained = run(server, "explain", str(file))
        run(server, "warm", str(file))
    again = run(server, "explain", str(file))
    tree = run(server, "tree")
    chunks = json.loads(run(server, "ls", "--json"))
    leaves = [chunk["key"] for chunk in chunks if chunk["parent"]]
    report = run(server, "diff", *leaves, "--json")

    assert (
        "image_changed: in message 2 (user), the image is a different one; 1 later token is the same"
        in explained
    )
    assert "all_known" in again
    assert len(set(re.findall(r"\[image (\w+)\]", tree))) == 2
    assert "[IMG]" not in str(chunks)
    parted = json.loads(report)
    assert "[INST][image " in parted["before"]
    assert parted["one"] != parted["other"]


def test_request_file_can_be_warmed_and_explained(filled: HostedServer, tmp_path: Path) -> None:
    file = tmp_path / "request.json"
    file.write_text(json.dumps(body("Tell me of hens")))

    assert "message_changed" in run(filled, "explain", str(file))
    known, _, total = run(filled, "warm", str(file)).split()[:3]
    assert int(known) == int(total) - 1
    assert "all_known" in run(filled, "explain", str(file))


def test_pinned_entries_survive_clear_and_unpinned_do_not(filled: HostedServer) -> None:
    hills, boats = leaves(filled)
    run(filled, "pin", hills)
    run(filled, "clear")
    assert leaves(filled) == [hills]
    run(filled, "unpin", hills)
    run(filled, "clear")

    assert run(filled, "tree").strip() == "The cache is empty."
    assert boats


def test_clear_removes_one_branch(filled: HostedServer) -> None:
    hills, boats = leaves(filled)

    run(filled, "clear", boats)

    assert hills in leaves(filled)
    assert boats not in leaves(filled)


def test_gc_prints_removed_chunks(filled: HostedServer) -> None:
    assert run(filled, "gc").startswith("0 chunks dropped")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["show", "zz"], "no branch has a key that begins with 'zz'"),
        (["explain", "nowhere.json"], "cannot read 'nowhere.json'"),
        (["pin", "zz"], "no branch"),
    ],
)
def test_failed_cache_commands_are_one_line_errors(
    filled: HostedServer, arguments: list[str], words: str
) -> None:
    output = run(filled, *arguments, code=1)

    assert words in output
    assert len(output.splitlines()) == 1


def test_cache_commands_need_the_api_key(server: HostedServer) -> None:
    assert "needs an API key; give one with --api-key" in run(server, "ls", key="", code=1)
    assert "rejects this API key; give another with" in run(server, "ls", key="wrong", code=1)


def test_missing_server_is_a_one_line_error() -> None:
    result = runner.invoke(app, ["cache", "ls", "--url", "http://127.0.0.1:9"])

    assert result.exit_code == 1
    assert "127.0.0.1:9" in result.output
