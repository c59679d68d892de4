"""Display names of models.

The repository, never the commit of a cache directory.
"""

import re
from pathlib import Path

_REPOSITORY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,95}(/[A-Za-z0-9_][A-Za-z0-9._-]{0,95})?")
_FOLDER_PREFIX = "models--"


def is_repository(name: str) -> bool:
    """Return whether `name` has the form of a hub repository.

    `NAME` or `ORGANIZATION/NAME`.
    """
    return _REPOSITORY.fullmatch(name) is not None and ".." not in name and "--" not in name


def repository_of_folder(folder: str) -> str | None:
    """Return the repository of a folder in the hub cache.

    None if it is not a model's.
    """
    if not folder.startswith(_FOLDER_PREFIX):
        return None
    name = folder.removeprefix(_FOLDER_PREFIX).replace("--", "/", 1)
    return name if is_repository(name) else None


def folder_of_repository(repository: str) -> str:
    """Return the name of the folder in the hub cache."""
    return _FOLDER_PREFIX + repository.replace("/", "--")


def display_name(directory: Path) -> str:
    """Return the display name of a model directory.

    The repository for a snapshot of the hub cache, else the directory's name.
    """
    if directory.parent.name == "snapshots":
        return repository_of_folder(directory.parent.parent.name) or directory.name
    return directory.name
