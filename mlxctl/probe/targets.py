"""Models to probe: named ones, or the whole library."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlxctl.ir import ModelFacts
from mlxctl.ir.errors import ModelError, ModelNotFoundOnDisk
from mlxctl.library import Library, NamedDirectory, read_model


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


def find_listener(library: Library) -> ModelFacts | None:
    """Return the smallest transcription model of the library.

    It hears what speech models say.
    """
    found = []
    for entry in library.entries():
        try:
            facts = None if entry.problem or entry.is_gguf else read_model(entry.path)
        except ModelError:
            continue
        if facts is not None and facts.transcription is not None:
            found.append(facts)
    return min(found, key=lambda facts: facts.weights_bytes, default=None)


def _look_up(name: str, find: Callable[[str], NamedDirectory]) -> ProbeTarget:
    try:
        return ProbeTarget(name=name, directory=find(name))
    except ModelNotFoundOnDisk as error:
        return ProbeTarget(name=name, problem=str(error))
