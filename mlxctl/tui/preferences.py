"""The remembered theme. File errors are ignored."""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from mlxctl import locations

_MAX_BYTES = 10_000
_LIGHT_BACKGROUNDS = ("7", "15")


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
            found = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return None
        theme = found.get("theme") if isinstance(found, dict) else None
        return theme if isinstance(theme, str) else None

    def save_theme(self, name: str) -> None:
        if self._path is None:
            return
        partial = self._path.with_suffix(f".{os.getpid()}.tmp")
        with suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            partial.write_text(json.dumps({"theme": name}) + "\n", encoding="utf-8")
            partial.replace(self._path)


def preferences_file() -> Path:
    """Return the path of the file; it need not exist."""
    return locations.state_directory() / "screen.json"


def detect_terminal_theme(environment: Mapping[str, str] = os.environ) -> str:
    """Return a theme for the background in COLORFGBG; default: dark."""
    background = environment.get("COLORFGBG", "").rpartition(";")[2]
    return "textual-light" if background in _LIGHT_BACKGROUNDS else "textual-dark"
