"""Takes a model off the disk: a directory of the person's own, or a repository of the hub's cache with all that it holds."""

import shutil

from mlxctl.errors import BrokenModel
from mlxctl.models.library import LibraryEntry


def remove_model(entry: LibraryEntry) -> None:
    """Delete the entry's folder, but nothing that a link in it points to. Raises BrokenModel when that cannot be done."""
    if entry.folder.is_symlink():
        # SEC: what the link points to may be anybody's; only the link is part of the library.
        raise BrokenModel(entry.folder, f"{str(entry.folder)!r} is a link and is left alone; remove it by hand")
    try:
        if entry.folder.exists():
            shutil.rmtree(entry.folder)
    except OSError as error:
        raise BrokenModel(entry.folder, f"cannot remove {str(entry.folder)!r}: {error.strerror or error}") from None
