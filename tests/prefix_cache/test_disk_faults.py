"""Faults of the disk tier: a miss and one log line.

Never a wrong record or a crash.
"""

import errno
import logging
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mlxctl.ir.errors import StoreError
from mlxctl.prefix_cache.disk import header, maintenance
from mlxctl.prefix_cache.disk.inspection import DiskInspector
from mlxctl.prefix_cache.disk.manifest import MIGRATIONS, Manifest
from mlxctl.prefix_cache.disk.tier import DiskTier, Record
from mlxctl.prefix_cache.index import PrefixIndex
from tests.prefix_cache.disk_records import closed, opened, publish_conversation, read_all, store
from tests.server.process import wait_for

HOME = "prefixes"
SEGMENT = f"{HOME}/00000000.segment"
MANIFEST = f"{HOME}/manifest.sqlite"
PWRITE = os.pwrite
# Three conversations with three chunks and two states each.
NUM_RECORDS = 15


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """Create a closed directory with three conversations."""
    tier = opened(tmp_path)
    store(tier, 1, 2, 3)
    closed(tier)
    return tmp_path


def problems(directory: Path) -> list[str]:
    inspector = DiskInspector.open(directory)
    try:
        return [finding.problem for finding in inspector.verify()]
    finally:
        inspector.close()


def num_entries(directory: Path) -> int:
    inspector = DiskInspector.open(directory)
    try:
        return len(inspector.entries())
    finally:
        inspector.close()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_untouched_directory_verifies_clean(filled: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert problems(filled) == []
    tier = opened(filled)
    assert read_all(tier) == (NUM_RECORDS, 0)
    closed(tier)
    assert warnings(caplog) == []


def test_state_reassigned_to_longer_chunk_survives_restart(tmp_path: Path) -> None:
    tier = opened(tmp_path)
    store(tier, 1)
    store(tier, 1, num_tokens=1400)
    closed(tier)

    assert problems(tmp_path) == []
    tier = opened(tmp_path)
    positions = sorted(state.position for chunk in tier.index.chunks() for state in chunk.checkpoints)
    assert positions == [512, 1200, 1400]
    assert read_all(tier) == (6, 0)
    closed(tier)


def truncated(directory: Path) -> None:
    os.truncate(directory / SEGMENT, (directory / SEGMENT).stat().st_size // 2)


def flipped(directory: Path) -> None:
    data = bytearray((directory / SEGMENT).read_bytes())
    data[len(data) // 2] ^= 1
    (directory / SEGMENT).write_bytes(data)


def missing(directory: Path) -> None:
    (directory / SEGMENT).unlink()


def foreign(directory: Path) -> None:
    (directory / SEGMENT).write_bytes(random.Random(1).randbytes((directory / SEGMENT).stat().st_size))


def newer_records(directory: Path) -> None:
    """Write records of a later format version with valid digests."""
    version, header.FORMAT_VERSION = header.FORMAT_VERSION, 99
    try:
        shutil.rmtree(directory / HOME)
        tier = opened(directory)
        store(tier, 1, 2, 3)
        closed(tier)
    finally:
        header.FORMAT_VERSION = version


@pytest.mark.parametrize("damage", [truncated, flipped, missing, foreign, newer_records])
def test_damaged_segments_are_misses_and_findings(filled: Path, damage: Callable[[Path], None]) -> None:
    damage(filled)

    assert problems(filled)
    tier = opened(filled)
    if damage is newer_records:
        with pytest.raises(ValueError, match="format 99"):
            read_all(tier)
    else:
        assert read_all(tier)[0] < NUM_RECORDS
    closed(tier)


@pytest.mark.parametrize("damage", [truncated, flipped, missing, foreign, newer_records])
def test_collect_removes_only_damaged_records(filled: Path, damage: Callable[[Path], None]) -> None:
    damage(filled)

    collected = maintenance.collect(filled, max_bytes=1 << 30)

    assert collected.num_damaged > 0
    assert problems(filled) == []
    tier = opened(filled)
    assert read_all(tier)[1] == 0
    closed(tier)


@given(seed=st.integers(0, 2**32), num_flips=st.integers(1, 4), name=st.sampled_from([SEGMENT, MANIFEST]))
@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_flipped_bits_never_give_a_wrong_record(filled: Path, seed: int, num_flips: int, name: str) -> None:
    home = filled.parent / "copy"
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(filled, home)
    generator = random.Random(seed)
    data = bytearray((home / name).read_bytes())
    for _ in range(num_flips):
        data[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
    (home / name).write_bytes(data)

    try:
        tier = opened(home)
    except StoreError:
        # The flipped bit made it a newer version, so the server runs without it.
        return
    read_all(tier)
    store(tier, 4)
    closed(tier)
    again = opened(home)
    read_all(again)
    closed(again)


@pytest.mark.parametrize("content", [b"", b"no database at all, but long enough to be taken for one" * 100])
def test_invalid_manifest_is_replaced_with_one_log_line(
    filled: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    (filled / MANIFEST).write_bytes(content)

    tier = opened(filled)
    assert read_all(tier) == (0, 0)
    store(tier, 5)
    closed(tier)

    assert problems(filled) == []
    assert len(warnings(caplog)) == bool(content)


@pytest.mark.parametrize("is_running", [False, True])
def test_clear_deletes_renamed_damaged_manifests(filled: Path, is_running: bool) -> None:
    (filled / MANIFEST).write_bytes(b"no database" * 1000)
    tier = opened(filled)
    store(tier, 1)
    assert list((filled / HOME).glob("*.damaged-*"))
    if is_running:
        tier.clear()
    closed(tier)
    if not is_running:
        maintenance.clear(filled)
    assert list((filled / HOME).glob("*.damaged-*")) == []


def test_newer_manifest_is_kept_and_disk_tier_disabled(
    filled: Path, caplog: pytest.LogCaptureFixture
) -> None:
    connection = sqlite3.connect(filled / MANIFEST)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = (filled / SEGMENT).read_bytes()

    assert DiskTier.open(filled, max_bytes=1 << 30, min_free_bytes=0, wake=lambda: None) is None

    assert (filled / SEGMENT).read_bytes() == before
    assert len(warnings(caplog)) == 1
    assert "newer" in warnings(caplog)[0]


def test_empty_manifest_of_a_full_disk_is_called_empty(tmp_path: Path) -> None:
    (tmp_path / HOME).mkdir()
    sqlite3.connect(tmp_path / MANIFEST, isolation_level=None).executescript(
        "CREATE TABLE t (x); DROP TABLE t"
    )

    with pytest.raises(StoreError, match="is empty: there was no space"):
        DiskInspector.open(tmp_path)


def test_older_manifest_is_left_to_next_server(tmp_path: Path) -> None:
    (tmp_path / HOME).mkdir()
    connection = sqlite3.connect(tmp_path / MANIFEST, isolation_level=None)
    connection.executescript(f"{MIGRATIONS[0]}; PRAGMA user_version = 1")
    connection.close()

    with pytest.raises(StoreError, match="older mlxctl"):
        DiskInspector.open(tmp_path)
    tier = opened(tmp_path)
    store(tier, 1)
    closed(tier)
    assert problems(tmp_path) == []


def test_manifest_damaged_at_runtime_is_replaced(
    filled: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def malformed(*_: object) -> None:
        raise sqlite3.DatabaseError("database disk image is malformed")

    tier = opened(filled)
    with monkeypatch.context() as patch:
        patch.setattr(Manifest, "add", malformed)
        store(tier, 4)
        tier._writer.wait_below(0, deadline=time.monotonic() + 60)
    tier.maintain()
    assert len(tier.index) == 0
    store(tier, 5)
    closed(tier)

    assert any(
        "malformed" in line and "set aside as manifest.sqlite.damaged-" in line for line in warnings(caplog)
    )
    assert problems(filled) == []
    again = opened(filled)
    assert read_all(again) == (5, 0)
    closed(again)


@pytest.mark.parametrize("statement", [None, "DROP TABLE chunks", "DROP TABLE records"])
def test_manifest_lost_at_runtime_is_created_again(
    filled: Path, statement: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is stored after the loss was seen would be kept.
    is_stored, add = threading.Event(), Manifest.add
    monkeypatch.setattr(Manifest, "add", lambda *row: is_stored.wait(60) and add(*row))
    tier = opened(filled)
    if statement is None:
        (filled / MANIFEST).unlink()
    else:
        with closing(sqlite3.connect(filled / MANIFEST)) as connection, connection:
            connection.execute(statement)
    store(tier, 4)
    is_stored.set()
    assert tier._writer.wait_below(0, deadline=time.monotonic() + 60)
    tier.maintain()
    assert len(tier.index) == 0
    store(tier, 5)
    closed(tier)
    assert problems(filled) == []
    again = opened(filled)
    assert read_all(again) == (5, 0)
    closed(again)


def unwritable(number: int) -> Callable[..., int]:
    def fail(*_: object, **options: object) -> int:
        raise OSError(number, os.strerror(number))

    return fail


def half_full(file: int, view: memoryview, offset: int) -> int:
    """Let the disk be full after half of the remaining bytes."""
    if len(view) < 512:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return PWRITE(file, view[: len(view) // 2], offset)


def without_rows(*_: object) -> None:
    raise sqlite3.OperationalError("attempt to write a readonly database")


@pytest.mark.parametrize(
    ("owner", "name", "failing", "message"),
    [
        (os, "pwrite", unwritable(errno.ENOSPC), "No space left"),
        (os, "pwrite", half_full, "No space left"),
        (os, "pwrite", unwritable(errno.EIO), "Input/output error"),
        (os, "pwrite", unwritable(errno.EACCES), "Permission denied"),
        (Manifest, "add", without_rows, "readonly database"),
    ],
    ids=["full", "full in the middle of a record", "broken", "forbidden", "forbidden manifest"],
)
def test_failing_disk_loses_writes_and_logs_once(
    filled: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    owner: object,
    name: str,
    failing: Callable[..., object],
    message: str,
) -> None:
    tier = opened(filled)
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, failing)
        store(tier, 4, 5)
        tier._writer.wait_below(0, deadline=time.monotonic() + 60)
    tier.maintain()
    assert read_all(tier) == (NUM_RECORDS, 0)
    store(tier, 4)
    closed(tier)

    assert len(warnings(caplog)) == 1
    assert message in warnings(caplog)[0]
    again = opened(filled)
    assert read_all(again) == (NUM_RECORDS + 5, 0)
    closed(again)


def test_unwritable_directory_disables_disk_tier_with_one_log_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "mkdir", unwritable(errno.EACCES))

    assert DiskTier.open(tmp_path / "cache", max_bytes=1 << 30, min_free_bytes=0, wake=lambda: None) is None

    assert len(warnings(caplog)) == 1
    assert "Permission denied" in warnings(caplog)[0]


def test_maintenance_is_rejected_while_server_runs(filled: Path) -> None:
    tier = opened(filled)
    for clean in (lambda: maintenance.clear(filled), lambda: maintenance.collect(filled, max_bytes=1 << 30)):
        with pytest.raises(StoreError, match="used by another"):
            clean()
    assert read_all(tier) == (NUM_RECORDS, 0)
    closed(tier)

    assert maintenance.clear(filled) == maintenance.MaintenanceResult(num_changed=9, num_chunks=0)
    assert sorted(path.name for path in (filled / HOME).iterdir()) == ["lock"]


def test_inspection_during_writes_finds_no_defect(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.prefix_cache.disk_records", str(tmp_path), "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(0.5)
        found = [problem for _ in range(20) for problem in problems(tmp_path)]
        writer.kill()
    assert found == []


def test_kill_at_any_moment_leaves_consistent_files(tmp_path: Path) -> None:
    generator = random.Random(7)
    num_whole = 0
    for round_number in range(5):
        command = [
            sys.executable,
            "-m",
            "tests.prefix_cache.disk_records",
            str(tmp_path),
            str(round_number * 50),
        ]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == b"writing\n"
        if not round_number:
            wait_for(lambda: num_entries(tmp_path), seconds=60)
        time.sleep(generator.uniform(0.0, 0.25))
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        tier = opened(tmp_path, max_bytes=400_000)
        whole, damaged = read_all(tier)
        num_whole += whole
        assert damaged == 0
        assert sum(path.stat().st_size for path in tmp_path.rglob("*.segment")) <= 400_000
        closed(tier)
        assert problems(tmp_path) == []
    assert num_whole > 0


def test_pin_in_memory_is_stored_on_disk(tmp_path: Path) -> None:
    index: PrefixIndex[Record] = PrefixIndex(max_bytes=1 << 40)
    chunk = publish_conversation(index, 1)
    index.pin(chunk.key)
    tier = opened(tmp_path)
    tier.store(chunk)
    store(tier, 2)
    closed(tier)

    tier = opened(tmp_path, max_bytes=1)
    # Keys, values and the last state; the earlier state is not needed.
    assert read_all(tier) == (4, 0)
    closed(tier)


@pytest.mark.parametrize("was_there", [False, True], ids=["written so", "renewed"])
def test_long_ttl_prefix_keeps_its_lifetime_on_disk(tmp_path: Path, was_there: bool) -> None:
    now = [1000.0]
    last = publish_conversation(PrefixIndex(max_bytes=1 << 40), 1)
    assert last.parent is not None
    assert last.parent.parent is not None
    path = (last, last.parent, last.parent.parent)
    tier = opened(tmp_path, clock=lambda: now[0])
    for lifetimes in [(300, 300, 300), (300, 3600, 3600)] if was_there else [(300, 3600, 3600)]:
        for chunk, lifetime in zip(path, lifetimes, strict=True):
            chunk.expires_at = now[0] + lifetime
        tier.store(last)
    closed(tier)

    now[0] += 301
    tier = opened(tmp_path, clock=lambda: now[0])
    assert sorted(chunk.start for chunk in tier.index.chunks()) == [0, 512]
    closed(tier)


def test_pins_and_lifetimes_survive_a_restart(tmp_path: Path) -> None:
    now = [1000.0]
    tier = opened(tmp_path, clock=lambda: now[0])
    store(tier, 1, 2)
    pinned = publish_conversation(PrefixIndex(max_bytes=1 << 40), 1).key
    assert tier.pin(pinned)
    closed(tier)

    now[0] += 23 * 3600
    tier = opened(tmp_path, clock=lambda: now[0])
    assert len(tier.index) == 6
    closed(tier)
    now[0] += 2 * 3600
    tier = opened(tmp_path, clock=lambda: now[0], max_bytes=1)
    assert read_all(tier) == (4, 0)
    assert tier.unpin(pinned)
    closed(tier)
    tier = opened(tmp_path, clock=lambda: now[0], max_bytes=1)
    assert len(tier.index) == 0
    closed(tier)
