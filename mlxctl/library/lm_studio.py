"""The directories in which LM Studio keeps models, as PUBLISHER/NAME.

LM Studio names its own directory in `~/.lmstudio-home-pointer`, and a folder that the user chose in
`settings.json` as `downloadsFolder`.
"""

from collections.abc import Iterator
from pathlib import Path

from mlxctl.ir.errors import SettingsError
from mlxctl.state.locations import expand_user, home_directory
from mlxctl.state.locations.regular_file import read_regular_file
from mlxctl.state.settings.documents import DocumentError, parse_json

_MAX_BYTES = 1024**2


def lm_studio_directories() -> list[Path]:
    """Return the directories of models that exist, the user's own folder first."""
    try:
        home = home_directory()
    except SettingsError:
        return []
    homes = [*_pointed(home / ".lmstudio-home-pointer"), home / ".lmstudio", home / ".cache" / "lm-studio"]
    settings = [*homes, home / "Library" / "Application Support" / "LM Studio"]
    folders = [folder for each in settings for folder in _chosen(each / "settings.json")]
    found = {
        path.resolve(): path
        for path in (*folders, *(each / "models" for each in homes))
        if _is_directory(path)
    }
    return list(found.values())


def _pointed(file: Path) -> Iterator[Path]:
    text = _read(file).decode("utf-8", "replace").strip()
    if text:
        yield expand_user(text.splitlines()[0])


def _chosen(file: Path) -> Iterator[Path]:
    try:
        settings = parse_json(_read(file))
    except DocumentError:
        return
    folder = settings.get("downloadsFolder") if isinstance(settings, dict) else None
    if isinstance(folder, str) and expand_user(folder).is_absolute():
        yield expand_user(folder)


def _read(file: Path) -> bytes:
    """Return the beginning of a file, empty where it cannot be read."""
    try:
        return read_regular_file(file, _MAX_BYTES)
    except OSError:
        return b""


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False
