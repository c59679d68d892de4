"""Removes models of the library from the disk."""

import shutil
from dataclasses import replace

from mlxctl.ir.errors import BrokenModel
from mlxctl.library.library import LibraryEntry


def check_removable(entry: LibraryEntry) -> None:
    """Raise BrokenModel for an entry that `remove_model` does not delete."""
    if entry.origin == "built in":
        raise BrokenModel(entry.folder, f"model {entry.name!r} is built into mlxctl and cannot be removed")
    if entry.folder.is_symlink():
        # SEC: only the link is part of the library, not its target.
        raise BrokenModel(
            entry.folder, f"{str(entry.folder)!r} is a link and is not removed; delete it by hand"
        )


def remove_model(entry: LibraryEntry) -> None:
    """Delete the entry's folder, but never the targets of its links.

    Raises BrokenModel when that fails.
    """
    check_removable(entry)
    try:
        if entry.origin == "hub cache":
            _forget_revisions(entry)
        if entry.folder.exists():
            shutil.rmtree(entry.folder)
    except OSError as error:
        raise BrokenModel(
            entry.folder, f"cannot remove {str(entry.folder)!r}: {error.strerror or error}"
        ) from None


def _forget_revisions(entry: LibraryEntry) -> None:
    """Delete the revisions of a repository with `huggingface_hub`.

    Repositories may share stored weights, which only the library tracks.
    """
    from huggingface_hub import scan_cache_dir

    cache = scan_cache_dir(entry.folder.parent)
    # SEC: revisions are deleted by hash wherever they are found, and a copied repository has the same hashes.
    ours = frozenset(found for found in cache.repos if found.repo_path == entry.folder.resolve())
    commits = [revision.commit_hash for found in ours for revision in found.revisions]
    if commits:
        replace(cache, repos=ours).delete_revisions(*commits).execute()
