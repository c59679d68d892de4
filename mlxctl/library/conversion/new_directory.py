"""Makes a model directory as a whole.

It is hidden beside its place until it is complete.
"""

import errno
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mlxctl.ir.errors import ConversionFailed, UsageError, describe_bytes
from mlxctl.library import Library
from mlxctl.library.names import is_repository
from mlxctl.state import locations

_PREFIX = ".unfinished-"
# A killed process leaves its directory.
_STALE_SECONDS = 86_400
# Disk space to leave free for the rest of the machine.
_SPARE_BYTES = 256 * 1024**2


def check_name(name: str, library: Library, *, replaces: bool) -> Path:
    """Return the directory of a new model.

    Raises ConversionFailed for a name that is taken, UsageError for what is no name.
    """
    if not is_repository(name):
        raise UsageError(
            f"{name!r} is no name of a model; the form is NAME or ORGANIZATION/NAME, give --name"
        )
    target = locations.models_directory() / name
    if target.is_symlink() or (target.exists() and not replaces):
        raise ConversionFailed(
            target,
            f"{str(target)!r} exists; --force replaces it, and --name gives the new model another name",
        )
    if "/" in name and (target.parent / "config.json").exists():
        raise ConversionFailed(target, f"{str(target.parent)!r} is a model; give another --name")
    other = next(
        (entry for entry in library.entries() if entry.name == name and entry.folder != target), None
    )
    if other is not None:
        raise ConversionFailed(
            target, f"the library has a model {name!r} at {str(other.path)!r}; give another --name"
        )
    return target


def check_room(num_bytes: int) -> None:
    """Raise ConversionFailed if the disk has no room for a model."""
    root = locations.models_directory()
    existing = next(path for path in (root, *root.parents) if path.is_dir())
    free = shutil.disk_usage(existing).free
    if num_bytes + _SPARE_BYTES > free:
        raise ConversionFailed(
            root,
            f"the new model needs {describe_bytes(num_bytes)} on the disk of {str(root)!r}, which has "
            f"{describe_bytes(free)} left, and {describe_bytes(_SPARE_BYTES)} must stay free; free space, or "
            "name another directory in XDG_DATA_HOME",
        )


@contextmanager
def new_model_directory(target: Path) -> Iterator[Path]:
    """Yield a directory that takes the place of `target` at the end.

    It is deleted if anything is raised. Raises ConversionFailed for a disk that is full or not writable.
    """
    temporary = None
    try:
        root = locations.models_directory()
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        _sweep(root)
        temporary = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=root))
        made = temporary / "model"
        made.mkdir()
        yield made
        target.parent.mkdir(mode=0o700, exist_ok=True)
        _replace(target, made, temporary / "replaced")
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise ConversionFailed(target, f"the disk of {str(target)!r} is full; nothing was kept") from None
        raise ConversionFailed(target, f"cannot write {str(target)!r}: {error.strerror or error}") from None
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


def _replace(target: Path, made: Path, old: Path) -> None:
    """Put a directory in the place of `target`, which moves to `old`."""
    if target.exists():
        target.rename(old)
    try:
        made.rename(target)
    except OSError:
        if old.exists():
            old.rename(target)
        raise


def _sweep(root: Path) -> None:
    for path in root.glob(f"{_PREFIX}*"):
        if time.time() - path.stat().st_mtime > _STALE_SECONDS:
            shutil.rmtree(path, ignore_errors=True)
