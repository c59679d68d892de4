"""A small file system of its own, for tests of full disks."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(home: Path, *, megabytes: int, max_files: int | None = None) -> Iterator[Path]:
    """Mount a file system of this size at `home`, a new directory.

    `max_files` limits the number of files, on Linux only. A limit on the length of files would let a journal
    be written, which a full disk does not.
    """
    home.mkdir()
    if sys.platform == "darwin":
        image = f"{home}.dmg"
        run("hdiutil", "create", "-quiet", "-size", f"{megabytes}m", "-fs", "HFS+", "-volname", "full", image)
        run("hdiutil", "attach", "-quiet", "-nobrowse", "-mountpoint", str(home), image)
    else:
        options = f"size={megabytes}m" + (f",nr_inodes={max_files}" if max_files else "")
        run("mount", "-t", "tmpfs", "-o", options, "tmpfs", str(home))
    try:
        yield home
    finally:
        unmount = ("hdiutil", "detach", "-force") if sys.platform == "darwin" else ("umount", "-l")
        run(*unmount, str(home))


def run(*command: str) -> None:
    """Run a command of the system; the test fails with it."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.fail(
            f"{command[0]}: {done.stderr.strip()}\nThese tests mount a small file system. On Linux run them "
            "as root, or after `unshare --map-root-user --mount`."
        )
