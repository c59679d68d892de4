"""`mlxctl cache` for a directory that no server uses, through the commands as a person types them."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mlxctl.cli import app
from mlxctl.prefix_cache.disk.manifest import Manifest
from tests.prefix_cache.disk_records import closed, opened, store

SEGMENT = "prefixes/00000000.segment"
# Of each of two conversations: three chunks and two states.
NUM_RECORDS = 10
runner = CliRunner()


@pytest.fixture
def filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with two conversations, closed; the disk that it is on may be nearly full."""
    monkeypatch.setenv("MLXCTL_ENGINE_CACHE_MIN_FREE_BYTES", "0")
    directory = tmp_path / "cache"
    tier = opened(directory)
    store(tier, 1, 2)
    closed(tier)
    return directory


def run(directory: Path, *arguments: str, code: int = 0) -> str:
    """What the command prints, on both streams."""
    result = runner.invoke(app, ["cache", *arguments, "--dir", str(directory)])
    assert result.exit_code == code, result.output
    return result.output


def cut_short(directory: Path) -> None:
    os.truncate(directory / SEGMENT, (directory / SEGMENT).stat().st_size - 1)


def flip_a_bit(directory: Path) -> None:
    data = bytearray((directory / SEGMENT).read_bytes())
    data[-1] ^= 1
    (directory / SEGMENT).write_bytes(data)


def remove(directory: Path) -> None:
    (directory / SEGMENT).unlink()


def exchange(directory: Path) -> None:
    """Let two records of one length change places."""
    manifest = Manifest.read_only(directory / "prefixes" / "manifest.sqlite")
    one, other = [record.extent for record in manifest.records() if record.position == 512]
    manifest.close()
    assert one.num_bytes == other.num_bytes
    data = (directory / SEGMENT).read_bytes()
    middle = data[one.end : other.offset]
    exchanged = data[other.offset : other.end] + middle + data[one.offset : one.end]
    (directory / SEGMENT).write_bytes(data[: one.offset] + exchanged + data[other.end :])


def test_what_is_sound_is_said_to_be(filled: Path) -> None:
    told = json.loads(run(filled, "verify", "--json"))

    assert run(filled, "verify").startswith(f"ok: {NUM_RECORDS} records")
    assert (told["is_sound"], told["num_records"], told["findings"]) == (True, NUM_RECORDS, [])


@pytest.mark.parametrize(
    ("damage", "problem", "num"),
    [(cut_short, "truncated", 1), (flip_a_bit, "damaged", 1), (remove, "missing", NUM_RECORDS), (exchange, "foreign", 2)],
)
def test_what_is_wrong_is_named_and_ends_with_one(filled: Path, damage: Callable[[Path], None], problem: str, num: int) -> None:
    damage(filled)

    told = json.loads(run(filled, "verify", "--json", code=1))

    assert {name: count for name, count in told["num_problems"].items() if count} == {problem: num}
    assert run(filled, "verify", code=1).startswith(f"not sound: {num} {problem};")


def test_a_server_that_uses_the_directory_is_not_in_the_way(filled: Path) -> None:
    tier = opened(filled)
    assert run(filled, "verify").startswith("ok")
    closed(tier)


def test_where_nothing_is_one_line_says_so(tmp_path: Path) -> None:
    output = run(tmp_path, "verify", code=1)

    assert output == f"mlxctl: there is no prefix cache in {str(tmp_path)!r}\n"


def leaves(directory: Path) -> list[str]:
    """The keys that `ls` shows."""
    return [line.split()[0] for line in run(directory, "ls").splitlines()[1:]]


def test_the_list_tells_what_is_known_without_a_server(filled: Path) -> None:
    chunks = json.loads(run(filled, "ls", "--json"))

    assert len(leaves(filled)) == 2
    assert len(chunks) == 6
    assert {(chunk["num_hits"], chunk["used_at"], chunk["memory_bytes"]) for chunk in chunks} == {(None, None, 0)}
    assert all(line.endswith("disk  (unknown model)") for line in run(filled, "ls").splitlines()[1:])
    assert len(run(filled, "tree").splitlines()) == 3


def test_counters_tell_bytes_and_records(filled: Path) -> None:
    told = json.loads(run(filled, "stats", "--json"))["cache_disk"]

    assert (told["num_chunks"], told["num_states"], told["num_dropped"]) == (6, 4, None)
    assert told["file_bytes"] == (filled / SEGMENT).stat().st_size >= told["num_bytes"]
    assert "of 10.7 GB, 6 chunks, 4 states" in run(filled, "stats")


def test_what_is_pinned_survives_clearing_and_what_is_unpinned_does_not(filled: Path) -> None:
    one, other = leaves(filled)

    assert run(filled, "pin", one) == "1 pinned\n"
    assert run(filled, "clear") == "3 chunks dropped, 3 left\n"
    assert leaves(filled) == [one]
    assert run(filled, "unpin", one) == "1 unpinned\n"
    assert run(filled, "clear") == "3 chunks dropped, 0 left\n"
    assert other
    assert not (filled / SEGMENT).exists()


def test_one_branch_can_be_cleared(filled: Path) -> None:
    one, other = leaves(filled)

    assert run(filled, "clear", one) == "3 chunks dropped, 3 left\n"
    assert leaves(filled) == [other]


def test_sweeping_removes_what_is_damaged(filled: Path) -> None:
    flip_a_bit(filled)

    assert json.loads(run(filled, "gc", "--json"))["num_damaged"] == 1
    assert run(filled, "verify").startswith(f"ok: {NUM_RECORDS - 1} records")


def test_sweeping_keeps_within_the_room_that_the_settings_give(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLXCTL_ENGINE_CACHE_DISK_BYTES", str((filled / SEGMENT).stat().st_size - 1))

    told = json.loads(run(filled, "gc", "--json"))

    assert told["num_changed"] >= 1
    assert told["bytes_after"] < told["bytes_before"]


def test_without_a_name_it_is_the_directory_that_serve_takes(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(filled.parent))
    filled.rename(filled.parent / "mlxctl")

    assert len(runner.invoke(app, ["cache", "ls", "--disk"]).output.splitlines()) == 3
    assert runner.invoke(app, ["cache", "verify"]).output.startswith("ok")


@pytest.mark.parametrize("arguments", [["gc"], ["clear"], ["pin", "KEY"]])
def test_what_a_server_uses_is_not_changed(filled: Path, arguments: list[str]) -> None:
    key = leaves(filled)[0]
    tier = opened(filled)

    output = run(filled, *(argument.replace("KEY", key) for argument in arguments), code=1)
    closed(tier)

    assert "is used by another mlxctl" in output
    assert len(leaves(filled)) == 2


def test_a_server_and_a_directory_cannot_both_be_meant(filled: Path) -> None:
    assert "give either" in run(filled, "ls", "--url", "http://127.0.0.1:9", code=1)


def test_a_file_carries_all_to_another_directory(filled: Path, tmp_path: Path) -> None:
    file = tmp_path / "prefixes.mlxa"

    assert run(filled, "export", str(file)).startswith(f"{NUM_RECORDS} records, ")
    assert run(filled, "import", str(file)) == f"0 records taken, {NUM_RECORDS} known already, 0 without room\n"
    told = json.loads(run(tmp_path / "other", "import", str(file), "--json"))

    assert told == {"num_taken": NUM_RECORDS, "num_known": 0, "num_without_room": 0}
    assert leaves(tmp_path / "other") == leaves(filled)
