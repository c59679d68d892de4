"""The remembered theme. File errors are ignored."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from mlxctl import locations

_MAX_BYTES = 10_000
_LIGHT_BACKGROUNDS = ("7", "15")


class _Stored(msgspec.Struct):
    theme: str | None = None


class Preferences:
    """A small JSON file; nothing is stored without a path."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    @property
    def theme(self) -> str | None:
        """The saved theme, which may not exist any more."""
        try:
            if self._path is None or self._path.stat().st_size > _MAX_BYTES:
                return None
            return msgspec.json.decode(self._path.read_bytes(), type=_Stored).theme
        except (OSError, ValueError, RecursionError):
            return None

    def save_theme(self, name: str) -> None:
        if self._path is None:
            return
        partial = self._path.with_suffix(f".{os.getpid()}.tmp")
        with suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            partial.write_bytes(msgspec.json.encode(_Stored(theme=name)) + b"\n")
            partial.replace(self._path)


def preferences_file() -> Path:
    """Return the path of the file; it need not exist."""
    return locations.state_directory() / "screen.json"


def detect_terminal_theme(environment: Mapping[str, str] = os.environ) -> str:
    """Return a theme for the background in COLORFGBG; default: dark."""
    background = environment.get("COLORFGBG", "").rpartition(";")[2]
    return "textual-light" if background in _LIGHT_BACKGROUNDS else "textual-dark"
