"""Errors of model directories and downloads."""

from collections.abc import Sequence
from pathlib import Path

from mlxctl.ir.errors.base import MlxctlError, describe_bytes


class ModelError(MlxctlError):
    """A model on disk cannot be used; `path` is its directory."""

    def __init__(self, path: Path | str, message: str) -> None:
        super().__init__(message)
        self.path = str(path)

    def without_path(self, name: str) -> str:
        """Return the message with the model's name instead of its path.

        Clients need not know where it is.
        """
        text = str(self).replace(repr(self.path), repr(name)).replace(self.path, name)
        return text.removeprefix(f"model {name!r}").removeprefix(":").lstrip()


class ModelNotFoundOnDisk(ModelError):
    """There is no model directory where one was named."""


class AmbiguousModelName(ModelNotFoundOnDisk):
    """A short form of several models' names; `names` are the full ones."""

    def __init__(self, path: Path | str, message: str, names: Sequence[str]) -> None:
        super().__init__(path, message)
        self.names = tuple(names)


class BrokenModel(ModelError):
    """A model's files are missing, malformed, unknown or not trusted."""


class RanksUnavailable(ModelError):
    """The ranks of a group cannot serve the model together."""


class DownloadFailed(ModelError):
    """A download failed; `path` is the repository.

    The hub does not have the model, cannot be reached, or there is no room for it.
    """


class ConversionFailed(ModelError):
    """A model cannot be imported or converted; `path` is source or target."""


class NotEnoughMemory(ModelError):
    """The weights do not fit into the memory limit."""

    def __init__(self, path: Path | str, *, needed_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            path,
            f"model {str(path)!r} needs {describe_bytes(needed_bytes)} for its weights alone, "
            f"but the memory limit is {describe_bytes(limit_bytes)}: "
            "raise --memory-limit, or take a smaller or more quantized model",
        )
        self.needed_bytes = needed_bytes
        self.limit_bytes = limit_bytes
