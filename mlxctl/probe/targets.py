"""Which models are to be probed: those that were named, or all that lie here.

One that cannot be found keeps its reason.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mlxctl.errors import ModelNotFoundOnDisk
from mlxctl.models import Library, NamedDirectory


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A model by its name; without a directory, `problem` says why there is none."""

    name: str
    directory: NamedDirectory | None = None
    problem: str | None = None


def named_targets(names: Sequence[str], library: Library) -> list[Target]:
    """Look the names up, each once, in their order: aliases, directories, or names of the library."""
    return [_look_up(name, library) for name in dict.fromkeys(names)]


def every_target(library: Library) -> list[Target]:
    """Return the whole library."""
    return [
        Target(name=entry.name, problem=entry.problem)
        if entry.problem is not None
        else Target(name=entry.name, directory=NamedDirectory(name=entry.name, path=entry.path))
        for entry in library.entries()
    ]


def _look_up(name: str, library: Library) -> Target:
    try:
        return Target(name=name, directory=library.resolve(name))
    except ModelNotFoundOnDisk as error:
        return Target(name=name, problem=str(error))
