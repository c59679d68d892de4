"""Models to probe: named ones, or the whole library."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlxctl.ir.errors import ModelNotFoundOnDisk
from mlxctl.library import Library, NamedDirectory


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeTarget:
    """A model by name; without a directory, `problem` says why."""

    name: str
    directory: NamedDirectory | None = None
    problem: str | None = None


def named_targets(names: Sequence[str], find: Callable[[str], NamedDirectory]) -> list[ProbeTarget]:
    """Look up names or directories, each once, in order.

    `find` raises ModelNotFoundOnDisk.
    """
    return [_look_up(name, find) for name in dict.fromkeys(names)]


def all_targets(library: Library) -> list[ProbeTarget]:
    """Return all models of the library."""
    return [
        ProbeTarget(name=entry.name, problem=entry.problem)
        if entry.problem is not None
        else ProbeTarget(name=entry.name, directory=NamedDirectory(name=entry.name, path=entry.path))
        for entry in library.entries()
    ]


def _look_up(name: str, find: Callable[[str], NamedDirectory]) -> ProbeTarget:
    try:
        return ProbeTarget(name=name, directory=find(name))
    except ModelNotFoundOnDisk as error:
        return ProbeTarget(name=name, problem=str(error))
