"""Display names of models.

The repository, never the commit of a cache directory.
"""

import re
from pathlib import Path
from urllib.parse import unquote

_REPOSITORY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,95}(/[A-Za-z0-9_][A-Za-z0-9._-]{0,95})?")
_FOLDER_PREFIX = "models--"
# Scheme, user and host of an address on the hub; a `Path` joins its two slashes. A mirror has the same pages.
_HUB_ADDRESS = re.compile(
    r"(?:(?:https?|ssh|git|git\+ssh):/{1,2})?(?:[^/@\s]+@)?(?:www\.)?"
    r"(?:huggingface\.co|hf\.co|hf-mirror\.com)(?::\d+(?=/))?[/:]/*"
    r"|hf:/{1,2}(?=\w)",
    re.IGNORECASE,
)
_MODEL_PAGES = re.compile(r"^(?:api/)?models/(?=[^/]+/)")
# Ollama writes the format of the weights behind a colon.
_ON_HUB = re.compile(
    r"(?P<repository>[^/:@]+(?:/(?!(?:tree|blob|resolve)/)[^/:@]+)?)(?::[^/]*)?"
    r"(?:@(?P<revision>[^/]*)(?:/.*)?|/(?:tree|blob|resolve|raw|commits?)/(?P<tree>[^/]+)(?:/.*)?|/.*)?"
)
# Pages of the hub that are no models.
_OTHER_PAGES = frozenset(
    {"buckets", "collections", "datasets", "docs", "models", "organizations", "papers", "spaces"}
)


def is_repository(name: str) -> bool:
    """Return whether `name` has the form of a hub repository.

    `NAME` or `ORGANIZATION/NAME`.
    """
    return _REPOSITORY.fullmatch(name) is not None and ".." not in name and "--" not in name


def plain_name(text: str) -> str:
    """Return the repository of a pasted address or folder of the hub.

    The address of its page, of one of its files or for Git, `hf://`, a folder of the hub cache. Other names
    are returned unchanged, and so are addresses of a revision other than `main`.
    """
    name = text.strip(" <>\"'").rstrip("/")
    address = _HUB_ADDRESS.match(name)
    if address is None:
        folders = filter(None, map(repository_of_folder, reversed(name.split("/"))))
        repository = next(folders, name)
        return repository if is_repository(repository) else text
    path = _MODEL_PAGES.sub("", unquote(re.split("[?#]", name[address.end() :])[0]).strip("/"), count=1)
    found = _ON_HUB.fullmatch(path)
    is_page = path.partition("/")[0] in _OTHER_PAGES
    if found is None or is_page or (found["revision"] or found["tree"] or "main") != "main":
        return text
    repository = found["repository"].removesuffix(".git")
    return repository if is_repository(repository) else text


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
