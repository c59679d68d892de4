"""Directories whose permissions hold, also where root runs the tests."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_NOBODY = 65534


@contextmanager
def restricted_directory() -> Iterator[Path]:
    """Yield a new directory of a user for whom permissions hold.

    Root becomes that user.
    """
    directory = Path(tempfile.mkdtemp(prefix="mlxctl-tests-"))
    is_root = os.geteuid() == 0
    if is_root:
        os.chown(directory, _NOBODY, -1)
        os.setresuid(_NOBODY, _NOBODY, 0)
    try:
        yield directory
    finally:
        if is_root:
            os.setresuid(0, 0, 0)
        for folder, _, files in os.walk(directory):
            for name in (".", *files):
                Path(folder, name).chmod(0o700)
        shutil.rmtree(directory)
