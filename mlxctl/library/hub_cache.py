"""Reads the cache of Hugging Face's tools: repositories and their snapshots.

Layout: `models--ORGANIZATION--NAME` with `refs/main` (a commit), `snapshots/COMMIT` (links) and `blobs`
(their targets).
"""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from mlxctl.library.files import missing_weight_files
from mlxctl.library.names import repository_of_folder
from mlxctl.state.locations import expand_user, home_directory

_COMMIT = re.compile(r"[0-9a-f]{6,64}")
_MAX_REF_BYTES = 100


class CachedRepository(NamedTuple):
    """A repository's folder and snapshot, or the reason why it has none."""

    name: str
    folder: Path
    snapshot: Path | None
    problem: str | None


def hub_cache_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the cache directory, by the variables of `huggingface_hub`.

    It need not exist.
    """
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if environment.get(variable):
            return expand_user(environment[variable])
    if environment.get("HF_HOME"):
        return expand_user(environment["HF_HOME"]) / "hub"
    base = environment.get("XDG_CACHE_HOME")
    return (expand_user(base) if base else home_directory() / ".cache") / "huggingface" / "hub"


def cached_repositories(cache: Path, *, most: int) -> Iterator[CachedRepository]:
    """Yield at most `most` models of the cache, by name."""
    names = {
        folder: name for folder in _listed(cache, most=most) if (name := repository_of_folder(folder.name))
    }
    for folder in sorted(names):
        if folder.is_dir() and not folder.is_symlink():
            yield cached_repository(names[folder], folder, most=most)


def cached_repository(name: str, folder: Path, *, most: int) -> CachedRepository:
    """Return the repository in a folder of the cache."""
    snapshots = [
        path for path in _listed(folder / "snapshots", most=most) if path.is_dir() and not path.is_symlink()
    ]
    commit = _main_commit(folder)
    chosen = next((path for path in snapshots if path.name == commit), None)
    if chosen is None and commit is None and snapshots:
        chosen = max(snapshots, key=lambda path: path.stat().st_mtime)
    if chosen is None:
        return CachedRepository(
            name, folder, None, f"model {name!r} is not downloaded: the cache holds no snapshot of it"
        )
    problem = None
    # PERF: only an unfinished download, a rare case, needs a look at the files.
    if any((folder / "blobs").glob("*.incomplete")) and not _has_model_files(chosen):
        problem = f"model {name!r} is not downloaded completely; `mlxctl models pull {name}` continues"
    return CachedRepository(name, folder, chosen, problem)


def _has_model_files(snapshot: Path) -> bool:
    """Whether a snapshot has configuration, tokenizer and all weights."""
    found = {file.name for file in snapshot.iterdir() if file.exists()}
    missing = missing_weight_files(snapshot, found)
    has_weights = not missing and any(name.endswith(".safetensors") for name in found)
    return has_weights and "config.json" in found and any(name.startswith("tokenizer") for name in found)


def _main_commit(folder: Path) -> str | None:
    try:
        with (folder / "refs" / "main").open("rb") as file:
            commit = file.read(_MAX_REF_BYTES).decode("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    # SEC: this text becomes part of a path.
    return commit if _COMMIT.fullmatch(commit) else None


def _listed(directory: Path, *, most: int) -> list[Path]:
    try:
        with os.scandir(directory) as entries:
            return [Path(entry.path) for entry, _ in zip(entries, range(most), strict=False)]
    except OSError:
        return []
