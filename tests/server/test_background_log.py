"""The bounded log file of a server in the background."""

import logging
import os
from pathlib import Path

import pytest

from mlxctl.server.observe.background_log import BackgroundLog, find_background_log
from mlxctl.server.observe.log_output import BackgroundHandler


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    path = tmp_path / "mlxctl" / "service.log"
    path.parent.mkdir()
    return path


def test_older_lines_move_to_a_second_file(log: Path) -> None:
    log.touch(mode=0o600)
    stream = log.open("a", encoding="utf-8")
    handler = BackgroundHandler(stream, file=BackgroundLog(log, stream.fileno(), max_bytes=1000))
    for number in range(100):
        handler.emit(logging.makeLogRecord({"msg": f"line {number} {'x' * 80}"}))
    handler.close()
    stream.close()
    older = log.with_name("service.log.1")
    assert max(log.stat().st_size, older.stat().st_size) < 1200
    assert older.stat().st_mode & 0o777 == 0o600
    kept = [line.split()[1] for line in (older.read_text() + log.read_text()).splitlines()]
    assert kept == [str(number) for number in range(100 - len(kept), 100)]


def test_only_a_log_that_is_appended_to_is_bounded(log: Path, tmp_path: Path) -> None:
    flags = os.O_WRONLY | os.O_CREAT
    appending, overwriting = os.open(log, flags | os.O_APPEND), os.open(log, flags)
    other = os.open(tmp_path / "mine.log", flags | os.O_APPEND)
    found = [find_background_log(descriptor) is not None for descriptor in (appending, overwriting, other)]
    for descriptor in (appending, overwriting, other):
        os.close(descriptor)
    assert found == [True, False, False]
