"""Takes a model off the disk: a directory of the person's own, or a repository of the hub's cache with all
that it holds.
"""

import shutil
from dataclasses import replace

from mlxctl.errors import BrokenModel
from mlxctl.models.library import LibraryEntry


def remove_model(entry: LibraryEntry) -> None:
    """Delete the entry's folder, but nothing that a link in it points to.

    Raises BrokenModel when that cannot be done.
    """
    if entry.folder.is_symlink():
        # SEC: what the link points to may be anybody's; only the link is part of the library.
        raise BrokenModel(
            entry.folder, f"{str(entry.folder)!r} is a link and is left alone; remove it by hand"
        )
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
    """Let the hub's own library take the revisions away: weights may lie in a store that repositories share,
    and it knows which.
    """
    from huggingface_hub import scan_cache_dir

    cache = scan_cache_dir(entry.folder.parent)
    # SEC: revisions are removed by their hash wherever it is found, and a copied repository has the same
    # hashes.
    ours = frozenset(found for found in cache.repos if found.repo_path == entry.folder.resolve())
    commits = [revision.commit_hash for found in ours for revision in found.revisions]
    if commits:
        replace(cache, repos=ours).delete_revisions(*commits).execute()
