"""The audit log: files, hashes, retention, and a full disk."""

import hashlib
import hmac
import logging
import os
import re
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mlxctl.state.stores.audit import AuditContent, AuditStore, read_audit_key
from mlxctl.state.stores.audit_files import AuditFiles, AuditQuery, AuditRecord
from mlxctl.state.stores.audit_index import INDEX_FILE, AuditIndex
from mlxctl.state.stores.damage import set_aside_files

DAY = 86400.0


def record(number: int = 0, **fields: object) -> AuditRecord:
    known: dict[str, object] = {
        "time": time.time(),
        "request_id": f"req-{number}",
        "method": "POST",
        "route": "/v1/messages",
        "status": 200,
        "duration_ms": 1.0,
    }
    return AuditRecord(**{**known, **fields})  # type: ignore[arg-type]


def files(directory: Path, **options: float) -> AuditFiles:
    known = {"retention_days": 30.0, "max_bytes": 1 << 30}
    return AuditFiles(directory, **{**known, **options})  # type: ignore[arg-type]


def test_search_returns_the_newest_first_in_pages(tmp_path: Path) -> None:
    log = files(tmp_path)
    log.append([record(number) for number in range(5)])
    first = log.search(AuditQuery(limit=2))
    second = log.search(AuditQuery(limit=2, after=first[-1].id))
    assert [one.request_id for one in first + second] == ["req-4", "req-3", "req-2", "req-1"]


def test_search_filters_by_key_model_status_and_time(tmp_path: Path) -> None:
    log = files(tmp_path)
    log.append([record(0, time=100.0, caller="a", model="m"), record(1, time=200.0, status=500)])
    for query, number in (
        (AuditQuery(key="a"), 0),
        (AuditQuery(model="m"), 0),
        (AuditQuery(status=500), 1),
        (AuditQuery(limit=9, key="unknown"), None),
    ):
        assert [one.request_id for one in log.search(query)] == ([] if number is None else [f"req-{number}"])


def segmented(directory: Path) -> AuditFiles:
    """Return a log of several segments; one has a rare key."""
    log = files(directory, max_bytes=120_000)
    for number in range(100):
        caller = "rare" if number == 33 else f"key{number % 2}"
        log.append([record(number, caller=caller, model="m" * 700, status=500 if number % 9 == 0 else 200)])
    assert len(list(directory.glob("*.jsonl"))) > 4
    return log


def numbers(found: list[AuditRecord]) -> list[int]:
    return [int(one.request_id.removeprefix("req-")) for one in found]


def test_search_reads_only_segments_that_can_match(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = segmented(tmp_path)
    read: list[str] = []

    def reading(path: Path) -> bytes:
        read.append(path.name)
        return path.read_bytes()

    monkeypatch.setattr("mlxctl.state.stores.audit_files._read", reading)
    assert numbers(log.search(AuditQuery(key="rare"))) == [33]
    assert 1 <= len(read) <= 2, "the segment with the record, and the last one"
    assert numbers(log.search(AuditQuery(key="rare", status=500))) == []
    first = log.search(AuditQuery())[-1]
    del read[:]
    assert log.search(AuditQuery(after=first.id)) == []
    assert 1 <= len(read) <= 2


@pytest.mark.parametrize("damage", [b"no database at all", b""])
def test_damaged_index_is_built_again(tmp_path: Path, damage: bytes) -> None:
    segmented(tmp_path)
    index = tmp_path / INDEX_FILE
    index.write_bytes(damage)
    for _ in range(2):
        log = files(tmp_path)
        assert numbers(log.search(AuditQuery(key="rare"))) == [33]
        assert numbers(log.search(AuditQuery(status=500))) == list(range(99, -1, -9))
    assert index.read_bytes().startswith(b"SQLite format 3")
    assert index.stat().st_mode & 0o777 == 0o600


def test_damaged_ids_do_not_stop_the_log(tmp_path: Path) -> None:
    segmented(tmp_path)
    for segment in tmp_path.glob("*.jsonl"):
        segment.write_bytes(re.sub(rb'"id":\d+', b'"id":18446744073709551615', segment.read_bytes()))
    log = files(tmp_path)
    log.append([record(100), record(101)])
    assert numbers(log.search(AuditQuery(key="rare"))) == [33]
    assert numbers(log.search(AuditQuery(limit=2))) == [101, 100]


def test_index_follows_segments_that_change_or_go(tmp_path: Path) -> None:
    log = segmented(tmp_path)
    oldest, second, *_ = sorted(tmp_path.glob("*.jsonl"))
    (tmp_path / "copy").write_bytes(oldest.read_bytes())
    second.write_bytes((tmp_path / "copy").read_bytes())
    oldest.unlink()
    assert numbers(log.search(AuditQuery(status=500)))[-1] == 0
    assert oldest.name not in AuditIndex(tmp_path).summaries()


@pytest.mark.parametrize("key", [None, "key0", "rare", "unknown"])
@pytest.mark.parametrize("status", [None, 200, 500])
def test_indexed_search_equals_a_filter_of_all_records(
    tmp_path: Path, key: str | None, status: int | None
) -> None:
    log = segmented(tmp_path)
    everything = log.search(AuditQuery(limit=1000))
    assert len(everything) == 100
    since, until, after = everything[70].time, everything[5].time, everything[20].id
    for times in ({}, {"since": since, "until": until}, {"after": after}):
        query = AuditQuery(key=key, status=status, limit=1000, **times)  # type: ignore[arg-type]
        assert log.search(query) == [one for one in everything if query.matches(one)]


def test_times_beyond_the_calendar_find_and_delete_nothing_wrong(tmp_path: Path) -> None:
    log = files(tmp_path, retention_days=1e9)
    log.append([record(0)])
    assert log.prune() == 0
    assert len(log.search(AuditQuery(since=-1e300, until=1e300))) == 1
    assert log.search(AuditQuery(since=1e300)) == log.search(AuditQuery(until=-1e300)) == []


def test_pages_are_complete_after_the_clock_was_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files(tmp_path).append([record(0), record(1)])
    monkeypatch.setattr(time, "time_ns", lambda: 5)
    log = files(tmp_path)
    log.append([record(2)])
    (newest,) = log.search(AuditQuery(limit=1))
    assert numbers([newest, *log.search(AuditQuery(after=newest.id))]) == [2, 1, 0]


def test_records_survive_a_restart_and_a_line_that_was_cut_off(tmp_path: Path) -> None:
    files(tmp_path).append([record(0)])
    (segment,) = tmp_path.iterdir()
    with segment.open("ab") as file:
        file.write(b'{"time":1.0,"request_')
    log = files(tmp_path)
    log.append([record(1)])
    assert [one.request_id for one in log.search(AuditQuery())] == ["req-1", "req-0"]
    assert segment.stat().st_mode & 0o777 == 0o600


def test_old_and_excess_segments_are_deleted(tmp_path: Path) -> None:
    old = datetime.fromtimestamp(time.time() - 5 * DAY, UTC).strftime("%Y%m%d")
    expired = tmp_path / f"audit-{old}-000000.jsonl"
    expired.write_text("{}\n")
    log = files(tmp_path, retention_days=2, max_bytes=16_000)
    for number in range(200):
        log.append([record(number, model="m" * 100)])
    assert not expired.exists()
    assert sum(path.stat().st_size for path in tmp_path.glob("*.jsonl")) <= 20_000
    assert log.search(AuditQuery(limit=1))[0].request_id == "req-199"


@pytest.mark.parametrize("debug", [False, True])
def test_content_is_hashed_with_the_key_and_shown_only_with_debug(tmp_path: Path, debug: bool) -> None:
    key = read_audit_key(tmp_path / "audit.key")
    store = AuditStore(files(tmp_path / "log"), key=key, debug=debug)
    store.add(record(), [AuditContent(prompt=lambda: b"a secret", answer=lambda: b"an answer")])
    store.close()
    (found,) = store.search(AuditQuery(), lambda _: True)
    assert found.prompt_sha256 == [hmac.new(key, b"a secret", hashlib.sha256).hexdigest()]
    assert (found.prompt, found.response) == ((["a secret"], ["an answer"]) if debug else ([], []))


def test_key_is_created_once_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "new" / "audit.key"
    assert read_audit_key(path) == read_audit_key(path)
    assert path.stat().st_mode & 0o777 == 0o600


def test_damaged_key_is_set_aside_and_replaced(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "audit.key"
    path.write_text("abcd")
    key = read_audit_key(path)
    assert read_audit_key(path) == key != b"\xab\xcd"
    (kept,) = set_aside_files(path)
    assert kept.read_text() == "abcd"
    assert "fewer than 32 bytes" in caplog.messages[0]


def test_pipe_in_place_of_the_key_is_set_aside(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "audit.key")
    assert len(read_audit_key(tmp_path / "audit.key")) == 32
    assert len(set_aside_files(tmp_path / "audit.key")) == 1


def test_foreign_file_among_segments_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "audit-20260101-new.jsonl").write_text("x")
    today = datetime.now(UTC).strftime("%Y%m%d")
    (tmp_path / f"audit-{today}-000000.jsonl").mkdir()
    os.mkfifo(tmp_path / f"audit-{today}-000001.jsonl")
    log = files(tmp_path)
    log.append([record(1)])
    assert [one.request_id for one in log.search(AuditQuery())] == ["req-1"]


@contextmanager
def no_file_may_grow() -> Iterator[None]:
    """Let every write of this process that makes a file longer fail."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_failing_writes_drop_records_with_one_message(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = AuditStore(files(tmp_path), key=os.urandom(32))
    with caplog.at_level(logging.ERROR), no_file_may_grow():
        for number in range(3):
            store.add(record(number))
        store.close()
    assert store.num_dropped == 3
    assert [line.getMessage() for line in caplog.records] == [
        "audit records are lost: [Errno 27] File too large"
    ]
