"""Directory lock: one owner at a time; the error names it."""

import os
import threading
import time
from pathlib import Path

import pytest

from mlxctl.ir.errors import StoreError
from mlxctl.prefix_cache.disk.lock import DirectoryLock


def test_lock_error_names_owner_process(tmp_path: Path) -> None:
    lock = DirectoryLock.acquire(tmp_path)
    with pytest.raises(StoreError, match=rf"used by another mlxctl, process {os.getpid()}; stop it, or"):
        DirectoryLock.acquire(tmp_path)
    lock.release()
    DirectoryLock.acquire(tmp_path).release()


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"12 ending", b"-1", b"9" * 4000])
def test_lock_ignores_file_content(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "lock").write_bytes(content)
    DirectoryLock.acquire(tmp_path).release()


def test_lock_waits_for_announced_release(tmp_path: Path) -> None:
    lock = DirectoryLock.acquire(tmp_path)
    lock.announce_release()
    started = time.monotonic()
    threading.Timer(1.5, lock.release).start()
    DirectoryLock.acquire(tmp_path).release()
    assert time.monotonic() - started >= 1.4
