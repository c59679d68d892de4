"""Cards of running servers, for commands of the same user.

A server holds a lock on its card: that of one that has ended, whose process id another process may have by
now, is not locked. SEC: a card has paths, so only its owner can read it, and only that of this user is read.
"""

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

# What is left of servers that were killed is removed by the next one.
_MAX_CARDS = 1000
_MAX_CARD_BYTES = 16 * 1024**2


class ServedDirectory(msgspec.Struct, frozen=True, kw_only=True):
    """A model's name on the server, and its directory.

    `path` has no links. `fingerprint` is that of the files when they were loaded; None for a model that was
    not.
    """

    name: str
    path: str
    fingerprint: str | None = None


class ServerCard(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server listens, and its models."""

    pid: int
    url: str
    models: tuple[ServedDirectory, ...] = ()


class CardFile:
    """The card of this process; visible and locked once written."""

    def __init__(self, directory: Path, *, port: int) -> None:
        self._path = directory / f"{port}-{os.getpid()}.json"
        self._descriptor: int | None = None

    def write(self, card: ServerCard) -> None:
        """Replace the card. Raises OSError."""
        directory = self._path.parent
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._descriptor is None:
            _remove_unlocked(directory)
        draft = self._path.with_suffix(".new")
        draft.unlink(missing_ok=True)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            os.write(descriptor, msgspec.json.encode(card))
            draft.replace(self._path)
        except OSError:
            os.close(descriptor)
            raise
        self._release()
        self._descriptor = descriptor

    def close(self) -> None:
        """Remove the card. Idempotent."""
        if self._descriptor is not None:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)
        self._release()

    def _release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def running_cards(directory: Path) -> list[ServerCard]:
    """Return the cards of this user's running servers, oldest first."""
    found = []
    for path in _card_files(directory):
        # A server replaces its card, so that the file just opened may be unlocked for a moment.
        card = _read_locked(path) or _read_locked(path)
        if card is not None:
            found.append(card)
    return found


def _card_files(directory: Path) -> Iterator[Path]:
    try:
        with os.scandir(directory) as entries:
            first = [entry for entry, _ in zip(entries, range(_MAX_CARDS), strict=False)]
        files = [(entry.stat(follow_symlinks=False).st_mtime, Path(entry.path)) for entry in first]
    except OSError:
        return
    yield from (path for _, path in sorted(files) if path.suffix == ".json")


def _read_locked(path: Path) -> ServerCard | None:
    """Return the card of a server that runs."""
    try:
        # A pipe would block its reader.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid() or not _is_locked(descriptor):
            return None
        with suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return msgspec.json.decode(file.read(_MAX_CARD_BYTES), type=ServerCard)
    return None


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _remove_unlocked(directory: Path) -> None:
    """Remove the cards of servers that were killed."""
    for path in _card_files(directory):
        with suppress(OSError), path.open("rb") as file:
            if not _is_locked(file.fileno()):
                path.unlink()
