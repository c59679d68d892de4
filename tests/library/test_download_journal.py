"""Files in which processes write their downloads for each other."""

import os
import time
from pathlib import Path

import pytest

from mlxctl.library.download_journal import Download, DownloadJournal

CACHE = Path("/hub")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "downloads"


def write_as(
    directory: Path, pid: int, *downloads: Download, cache: Path = CACHE, written_at: float | None = None
) -> Path:
    """Write downloads as another process does; `written_at` is in unix seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "getpid", lambda: pid)
        if written_at is not None:
            patch.setattr(time, "time", lambda: written_at)
        DownloadJournal(directory, cache).write(downloads)
    return directory / f"{pid}.json"


def running(pid: int, repository: str = "org/tiny") -> Download:
    return Download(repository=repository, state="running", current_file="a.safetensors", pid=pid)


def test_downloads_of_other_processes_are_read_as_written(directory: Path) -> None:
    done = Download(repository="org/done", state="done", num_bytes=7, path=Path("/hub/done"), pid=41)
    write_as(directory, 41, running(41), done)
    write_as(directory, os.getpid(), running(os.getpid()))
    write_as(directory, 42, running(42), cache=Path("/other"))

    assert DownloadJournal(directory, CACHE).others() == [running(41), done]


def test_unfinished_download_of_an_ended_process_has_failed(directory: Path) -> None:
    written_at = time.time() - 60
    done = Download(repository="org/done", state="done", pid=41)
    write_as(directory, 41, running(41), done, written_at=written_at)

    lost, other = DownloadJournal(directory, CACHE).others()
    assert (lost.state, lost.ended_at, other) == ("failed", written_at, done)
    assert "its process ended" in str(lost.error)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"cache": "/hub"}', b"\xff" * 9, b"1" * 300_000])
def test_damaged_file_is_skipped(directory: Path, content: bytes) -> None:
    write_as(directory, 41, running(41)).write_bytes(content)
    write_as(directory, 42, running(42))

    assert [download.pid for download in DownloadJournal(directory, CACHE).others()] == [42]


def test_old_and_surplus_files_are_deleted(directory: Path) -> None:
    for pid in range(100, 170):
        write_as(directory, pid, running(pid))
    day_old = write_as(directory, 99, running(99))
    os.utime(day_old, (time.time() - 90_000,) * 2)

    assert len(DownloadJournal(directory, CACHE).others()) == 64
    assert len(list(directory.iterdir())) == 64
    assert not day_old.exists()


def test_unwritable_directory_does_not_fail_the_download(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    journal = DownloadJournal(tmp_path / "file" / "downloads", CACHE)
    journal.write([running(1)])

    assert journal.others() == []
