"""Directories of LoRA adapters that may be mounted.

Blocks on the disk; any thread.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from mlxctl.ir.errors import InvalidRequest, ModelNotFoundOnDisk

_MAX_PATH_LENGTH = 4096

FindDirectory = Callable[[str], Path]
"""Returns the directory of a name of the library. Raises ModelNotFoundOnDisk."""


class AdapterDirectories:
    """Directories below the `roots` of the settings, and those of the library."""

    def __init__(self, roots: Sequence[Path], find_named: FindDirectory) -> None:
        self._roots = roots
        self._find_named = find_named

    def find_configured(self, path: Path) -> Path:
        """Return the directory that the operator names.

        Any directory, or one of the library. Raises ModelNotFoundOnDisk.
        """
        if path.is_dir():
            return path
        try:
            return self._find_named(str(path))
        except ModelNotFoundOnDisk:
            raise ModelNotFoundOnDisk(
                path,
                f"there is no adapter directory at {str(path)!r}, and no adapter of this name in the library",
            ) from None

    def find(self, path: str) -> Path:
        """Return the directory that a client names.

        SEC: below a root or in the library; clients must not read other directories, and links that lead out
        are not followed. Raises InvalidRequest.
        """
        if len(path) > _MAX_PATH_LENGTH or not path.isprintable():
            raise InvalidRequest(
                f"path must have at most {_MAX_PATH_LENGTH} printable characters", param="path"
            )
        try:
            found = self._below_roots(path)
        except OSError as error:
            raise InvalidRequest(
                f"path {path[:64]!r} cannot be read: {error.strerror}", param="path"
            ) from None
        if found is not None:
            return found
        if Path(path).is_absolute() or ".." in Path(path).parts:
            raise InvalidRequest(f"path {path!r} is not below a directory of adapters.dirs", param="path")
        with suppress(ModelNotFoundOnDisk):
            found = self._find_named(path)
            # SEC: a model of the library gets the error of an unknown name; the caller may not know of it.
            if (found / "adapter_config.json").is_file():
                return found
        raise InvalidRequest(
            f"there is no adapter {path!r} in the directories of adapters.dirs, and none of this name in the "
            "library",
            param="path",
        )

    def _below_roots(self, path: str) -> Path | None:
        for root in (each.resolve() for each in self._roots):
            directory = (root / path).resolve()
            if directory != root and directory.is_relative_to(root) and directory.is_dir():
                files = [file.resolve() for file in directory.iterdir() if file.is_symlink()]
                if not all(file.is_relative_to(root) for file in files):
                    raise InvalidRequest(
                        f"adapter {path!r} has a link to a file outside adapters.dirs", param="path"
                    )
                return directory
        return None
