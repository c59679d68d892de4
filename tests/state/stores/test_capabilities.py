"""Probe results: they persist, round-trip, and survive failed probes."""

import sqlite3
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from mlxctl.ir.errors import StoreError
from mlxctl.state.stores import QUESTIONS, CapabilityStore, Finding, ProbeRecord

from .probe_records import BROKE_DOWN, CALLS_TOOLS, DOES_NOT_THINK, RECORDS, record


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "made on demand" / "capabilities.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[CapabilityStore]:
    store = CapabilityStore(path)
    yield store
    store.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=60)
@given(found=RECORDS)
def test_record_round_trips_through_another_process(path: Path, found: ProbeRecord) -> None:
    path.unlink(missing_ok=True)
    writer, reader = CapabilityStore(path), CapabilityStore(path)
    assert writer.save(found) == found
    writer.close()
    assert reader.find(found.fingerprint) == found
    reader.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=60)
@given(first=RECORDS, second=RECORDS)
def test_failed_finding_never_replaces_a_stored_one(
    path: Path, first: ProbeRecord, second: ProbeRecord
) -> None:
    path.unlink(missing_ok=True)
    store = CapabilityStore(path)
    store.save(first)
    kept = store.save(replace(second, fingerprint=first.fingerprint))
    for question in QUESTIONS:
        before, latest, now = first.finding(question), second.finding(question), kept.finding(question)
        assert now == (before if before and (latest is None or latest.has_failed) else latest)
    store.close()


def test_failed_finding_is_stored_until_one_succeeds(store: CapabilityStore) -> None:
    assert store.save(record(BROKE_DOWN)).findings == (BROKE_DOWN,)
    assert store.save(record(CALLS_TOOLS)).findings == (CALLS_TOOLS,)
    assert store.save(record(BROKE_DOWN, DOES_NOT_THINK)).findings == (CALLS_TOOLS, DOES_NOT_THINK)
    assert store.find("aa") == record(CALLS_TOOLS, DOES_NOT_THINK)


def test_record_is_complete_with_all_findings_without_failure() -> None:
    answers = [Finding(question=question, verdict="unknown", reason="who knows") for question in QUESTIONS]
    assert record(*answers).is_complete
    assert not record(*answers[1:]).is_complete
    assert not record(
        *(replace(answer, has_failed=answer.question == "tools") for answer in answers)
    ).is_complete


def test_failed_finding_cannot_be_a_no(store: CapabilityStore) -> None:
    with pytest.raises(StoreError, match="CHECK"):
        store.save(record(replace(BROKE_DOWN, verdict="no")))
    assert store.find("aa") is None


def test_records_are_separate_by_fingerprint(store: CapabilityStore) -> None:
    store.save(record(CALLS_TOOLS, model="same name"))
    store.save(record(DOES_NOT_THINK, model="same name", fingerprint="bb"))
    assert store.find("aa") == record(CALLS_TOOLS, model="same name")
    assert store.find("cc") is None


def test_file_is_created_at_first_save_and_owner_only(store: CapabilityStore, path: Path) -> None:
    assert not store.has_records()
    assert store.find("aa") is None
    assert not path.parent.exists()
    store.save(record())
    assert store.has_records()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_file_of_a_newer_version_is_not_changed(store: CapabilityStore, path: Path) -> None:
    store.save(record(CALLS_TOOLS))
    store.close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    for use in (store.has_records, lambda: store.find("aa"), lambda: store.save(record())):
        with pytest.raises(StoreError, match="newer mlxctl") as raised:
            use()
        assert "\n" not in str(raised.value)


def test_invalid_record_is_logged_once_and_set_aside(store: CapabilityStore, path: Path) -> None:
    store.save(record(CALLS_TOOLS))
    connection = sqlite3.connect(path)
    connection.execute("UPDATE findings SET value = '{'")
    connection.commit()
    connection.close()
    assert store.find("aa") is None
    assert len(list(path.parent.glob(f"{path.name}.damaged-*"))) == 1
