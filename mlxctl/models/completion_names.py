"""Names that a shell completes: asked for while a person waits with a finger on the key, so models are not
looked into.
"""

import os

from mlxctl.errors import MlxctlError
from mlxctl.models.library import Library
from mlxctl.settings import resolve


def offered_names() -> list[str]:
    """Return aliases and models of the library, sorted; nothing where the settings or the disk cannot be
    read.
    """
    try:
        library = Library(resolve(environment=os.environ).library)
        return sorted(
            {*library.aliases, *(entry.name for entry in library.entries() if entry.problem is None)}
        )
    except (MlxctlError, OSError):
        return []
