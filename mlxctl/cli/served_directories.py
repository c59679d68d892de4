"""Model directories of the library, and of running servers.

Servers leave cards that name theirs.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from mlxctl.ir.errors import BrokenModel, ModelNotFoundOnDisk
from mlxctl.state import locations
from mlxctl.state.locations import expand_user
from mlxctl.state.settings import resolve
from mlxctl.terminal_text import echo

if TYPE_CHECKING:
    from mlxctl.library import Library, NamedDirectory
    from mlxctl.state.stores.server_cards import ServedDirectory, ServerCard


def open_library(config: Path | None) -> "Library":
    """Return the library that the settings describe. Raises SettingsError."""
    from mlxctl.library import Library

    return Library(resolve(config_file=config, environment=os.environ).library)


def is_model_name(word: str) -> bool:
    """Return whether `word` is the name or path of a model.

    Raises SettingsError.
    """
    if not word or len(word.split()) != 1:
        return False
    try:
        found = find_directory(word, open_library(None))
    except ModelNotFoundOnDisk:
        return False
    return (found.path / "config.json").is_file()


def cards() -> "list[ServerCard]":
    """Return the cards of the servers that run."""
    from mlxctl.state.stores.server_cards import running_cards

    return running_cards(locations.server_cards_directory())


def find_directory(name: str, library: "Library") -> "NamedDirectory":
    """Return the directory of a model by path or name.

    The name is that of a running server, or of the library. Raises ModelNotFoundOnDisk.
    """
    from mlxctl.library import NamedDirectory

    if name in library.aliases or not (expand_user(name) / "config.json").is_file():
        served = (model for card in cards() for model in card.models if model.name == name)
        if (found := next(served, None)) is not None:
            return NamedDirectory(name=name, path=Path(found.path))
    return library.resolve(name)


def warn_of_second_load(name: str, directory: Path) -> None:
    """Say that a model is loaded though a server has it."""
    for card in cards():
        if serves(card, directory):
            echo(f"mlxctl: loading {name} a second time, beside the server at {card.url}", err=True)


def name_to_load(name: str, library: "Library", *, is_quiet: bool) -> str:
    """Return `name`, or the path that it means.

    That of a model that a running server has by this name, and the library has not. Says, unless `is_quiet`,
    that a model is loaded a second time.
    """
    try:
        found = find_directory(name, library)
    except ModelNotFoundOnDisk:
        return name
    if not is_quiet:
        warn_of_second_load(name, found.path)
    try:
        library.resolve(name)
    except ModelNotFoundOnDisk:
        return str(found.path)
    return name


def serves(card: "ServerCard", directory: Path) -> bool:
    """Whether the server has a model of this directory.

    Its files may have changed.
    """
    resolved = str(directory.resolve())
    return any(model.path == resolved for model in card.models)


def find_served(card: "ServerCard", directory: Path) -> "ServedDirectory | None":
    """Return the server's model with the files of a directory.

    It may be in another directory. None if the files have changed since the server loaded them.
    """
    resolved = directory.resolve()
    for model in card.models:
        if Path(model.path) == resolved:
            return model if model.fingerprint in (None, _fingerprint(resolved)) else None
    # PERF: only models of the same configuration are compared.
    config = _read(resolved / "config.json")
    alike = [model for model in card.models if config and _read(Path(model.path) / "config.json") == config]
    wanted = _fingerprint(resolved) if alike else None
    for model in alike:
        if wanted is not None and wanted == (model.fingerprint or _fingerprint(Path(model.path))):
            return model
    return None


def _fingerprint(path: Path) -> str | None:
    from mlxctl.library.fingerprint import fingerprint

    try:
        return fingerprint(path)
    except BrokenModel:
        return None


def _read(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except OSError:
        return None
