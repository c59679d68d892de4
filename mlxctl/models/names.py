"""How models are called when they are spoken of: never by the commit that a cache happens to keep them under."""

import re
from pathlib import Path

_REPOSITORY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,95}(/[A-Za-z0-9_][A-Za-z0-9._-]{0,95})?")
_FOLDER_PREFIX = "models--"


def is_repository(name: str) -> bool:
    """Return whether `name` could be a repository of the hub: `NAME` or `ORGANIZATION/NAME`."""
    return _REPOSITORY.fullmatch(name) is not None and ".." not in name and "--" not in name


def repository_of_folder(folder: str) -> str | None:
    """Return the repository that a folder of the hub cache belongs to, None if it is none of a model."""
    if not folder.startswith(_FOLDER_PREFIX):
        return None
    name = folder.removeprefix(_FOLDER_PREFIX).replace("--", "/", 1)
    return name if is_repository(name) else None


def folder_of_repository(repository: str) -> str:
    """Return the name of the folder in the hub cache."""
    return _FOLDER_PREFIX + repository.replace("/", "--")


def spoken_name(directory: Path) -> str:
    """Return what a person calls the model in `directory`: its repository if it is a snapshot, else the
    directory's name.
    """
    if directory.parent.name == "snapshots":
        return repository_of_folder(directory.parent.parent.name) or directory.name
    return directory.name
