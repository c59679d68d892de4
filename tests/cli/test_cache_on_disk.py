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
def filled(tmp_path: Path) -> Path:
    """A directory with two conversations, closed."""
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
    one, other = [record.extent for record in manifest.records() if record.position == 256]
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
