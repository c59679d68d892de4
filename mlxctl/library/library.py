"""The models on this machine.

Those of configured directories and those that mlxctl made first, then of the hub cache, then of LM Studio.
Finds, names and removes models; loads nothing. A model directory may be a link, for example to another disk:
that is the operator's choice. A link inside a model directory that leads out of it and out of the library is
never followed; the entry says so.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from mlxctl.ir.errors import AmbiguousModelName, MlxctlError, ModelNotFoundOnDisk
from mlxctl.library import demo
from mlxctl.library.files import OTHER_FORMAT, missing_config
from mlxctl.library.hub_cache import cached_repositories, cached_repository, hub_cache_directory
from mlxctl.library.lm_studio import lm_studio_directories
from mlxctl.library.names import display_name, plain_name, repository_of_folder
from mlxctl.state import locations
from mlxctl.state.locations import expand_user
from mlxctl.state.settings import LibrarySettings, resolve

if TYPE_CHECKING:
    from mlxctl.library.description import ModelDescription

# Limit of entries that are read in one directory.
MAX_ENTRIES = 10_000

Origin = Literal["models directory", "hub cache", "LM Studio", "built in"]
"""The kind of library that has a model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryEntry:
    """A model in the library.

    `path` is its directory, `folder` the directory to delete in order to remove it. `is_gguf`: it has only
    GGUF files.
    """

    name: str
    path: Path
    folder: Path
    origin: Origin
    problem: str | None = None
    is_gguf: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedDirectory:
    """A model directory and the name that it is shown under."""

    name: str
    path: Path


DEMO_MODEL = NamedDirectory(name=demo.MODEL_NAME, path=demo.MODEL_DIR)
"""The built-in model, served when the settings name none."""

DEMO_SHORT_NAME = demo.SHORT_NAME


def is_pattern(alias: str) -> bool:
    """Whether an alias is a glob for names in requests."""
    return not {"*", "?", "["}.isdisjoint(alias)


class Library:
    """The models on this machine; every call reads the disk."""

    def __init__(self, settings: LibrarySettings) -> None:
        self._cache = settings.hub_cache or hub_cache_directory()
        own = (*settings.models_dirs, locations.models_directory())
        self._directories = _directories(own, self._cache)
        self.aliases: Mapping[str, str] = dict(settings.aliases)

    @property
    def hub_cache(self) -> Path:
        """The directory of downloads."""
        return self._cache

    def entries(self) -> list[LibraryEntry]:
        """Return all models, unusable ones with the problem.

        A model whose name is taken by an earlier one has a problem too, unless the earlier one is unusable.
        """
        found: dict[str, LibraryEntry] = {}
        hidden: list[LibraryEntry] = []
        own, others = self._in_directories("models directory"), self._in_directories("LM Studio")
        for entry in (*own, *self._in_cache(), *others):
            first = found.setdefault(entry.name, entry)
            if first.problem is not None and entry.problem is None:
                found[entry.name] = entry
                hidden.append(first)
            elif first is not entry and first.path.resolve() != entry.path.resolve():
                problem = (
                    f"model {entry.name!r} in {str(entry.folder)!r} ({entry.origin}) is hidden by the one of "
                    f"this name in {str(first.folder)!r} ({first.origin})"
                )
                hidden.append(replace(entry, problem=problem))
        return [*found.values(), *hidden]

    def describe(self, entry: LibraryEntry) -> "ModelDescription":
        """Describe an entry. Never raises for its files."""
        # PERF: listing names must not import the description of models.
        from mlxctl.library.description import ModelDescription, describe_model

        if entry.problem is not None:
            return ModelDescription(
                name=entry.name, path=entry.path, disk_bytes=0, config={}, problem=entry.problem
            )
        return describe_model(entry.path, name=entry.name)

    def find(self, name: str) -> LibraryEntry:
        """Return the entry of this name.

        The part after the slash suffices if only one usable model has it, and so does a short name of the hub
        (`qwen3:4b`). The built-in demo model has two names, but is in no list. Raises ModelNotFoundOnDisk.
        """
        entries = self.entries()
        for entry in entries:
            if entry.name == name:
                return entry
        if name in (demo.MODEL_NAME, demo.SHORT_NAME):
            path = demo.MODEL_DIR
            return LibraryEntry(name=demo.MODEL_NAME, path=path, folder=path, origin="built in")
        by_name: dict[str, LibraryEntry] = {}
        for entry in entries:
            by_name.setdefault(entry.name, entry)
        short = [entry for full, entry in by_name.items() if full.rpartition("/")[2] == name]
        short = [entry for entry in short if entry.problem is None] or short
        if not short:
            # PERF: the short names are read only for names that nothing here has.
            from mlxctl.library.short_names import repository_of_short_name

            repository = repository_of_short_name(name)
            short = [by_name[repository]] if repository in by_name else []
        if len(short) == 1:
            return short[0]
        from mlxctl.library.unknown_names import describe_ambiguous, describe_unknown

        if short:
            names = [entry.name for entry in short]
            raise AmbiguousModelName(name, describe_ambiguous(name, names), names)
        known = {demo.SHORT_NAME: demo.MODEL_NAME, demo.MODEL_NAME: demo.MODEL_NAME}
        known |= {part: full for full in by_name for part in (full.rpartition("/")[2], full)}
        raise ModelNotFoundOnDisk(name, describe_unknown(name, known))

    def resolve(self, name: str) -> NamedDirectory:
        """Return the directory for an alias, path, name or address.

        The address is that of a page of the hub. A directory called `demo` without a model does not hide the
        demo model. For command lines and settings only. Raises ModelNotFoundOnDisk, with close names.
        """
        path = expand_user(name)
        is_demo = name == demo.SHORT_NAME and not (path / "config.json").exists()
        if name not in self.aliases and path.is_dir() and not is_demo:
            return _named_directory(path)
        if name not in self.aliases and path.is_file():
            hint = f"; {OTHER_FORMAT}" if path.suffix == ".gguf" else ""
            raise ModelNotFoundOnDisk(
                path, f"{name!r} is a file; a model is a directory with config.json and *.safetensors{hint}"
            )
        return self.find_named(name if name in self.aliases else plain_name(name))

    def find_named(self, name: str) -> NamedDirectory:
        """Return the directory for an alias or a name, never a path.

        Raises ModelNotFoundOnDisk.
        """
        if name in self.aliases:
            path = self._target(name)
            return NamedDirectory(name=display_name(path) if is_pattern(name) else name, path=path)
        entry = self.find(name)
        if entry.problem is not None:
            raise ModelNotFoundOnDisk(entry.path, entry.problem)
        return NamedDirectory(name=entry.name, path=entry.path)

    def names_of(self, directory: Path) -> list[str]:
        """Return all aliases and names of a directory."""
        resolved = directory.resolve()
        aliases = [alias for alias in self.aliases if self._leads_to(alias, resolved)]
        entries = [entry.name for entry in self.entries() if entry.path.resolve() == resolved]
        return [*aliases, *entries, *(name.rpartition("/")[2] for name in entries)]

    def _leads_to(self, alias: str, resolved: Path) -> bool:
        try:
            return self._target(alias).resolve() == resolved
        except ModelNotFoundOnDisk:
            return False

    def _target(self, alias: str) -> Path:
        target, seen = self.aliases[alias], {alias}
        while target in self.aliases and target not in seen:
            seen.add(target)
            target = self.aliases[target]
        if target in seen:
            raise ModelNotFoundOnDisk(alias, f"alias {alias!r} refers to itself")
        path = expand_user(target)
        if path.is_absolute():
            return path
        try:
            entry = self.find(plain_name(target))
        except ModelNotFoundOnDisk as error:
            raise ModelNotFoundOnDisk(alias, f"alias {alias!r} stands for {target!r}, but {error}") from None
        if entry.problem is not None:
            raise ModelNotFoundOnDisk(entry.path, entry.problem)
        return entry.path

    def _in_cache(self) -> Iterator[LibraryEntry]:
        for cached in cached_repositories(self._cache, most=MAX_ENTRIES):
            path = cached.snapshot or cached.folder
            problem = cached.problem or _find_bad_file(path, cached.name, self._roots())
            yield LibraryEntry(
                name=cached.name, path=path, folder=cached.folder, origin="hub cache", problem=problem
            )

    def _in_directories(self, origin: Origin) -> Iterator[LibraryEntry]:
        directories = [directory for directory, kind in self._directories if kind == origin]
        for path in (path for directory in directories for path in _subdirectories(directory)):
            if _is_model(path):
                yield self._entry(path, path.name, origin)
            else:
                yield from (
                    self._entry(inner, f"{path.name}/{inner.name}", origin)
                    for inner in _subdirectories(path)
                    if _is_model(inner)
                )

    def _entry(self, path: Path, name: str, origin: Origin) -> LibraryEntry:
        problem, is_gguf = _find_bad_file(path, name, self._roots()), _is_gguf(path)
        if problem is None and is_gguf:
            problem = missing_config(path, name)
        return LibraryEntry(
            name=name, path=path, folder=path, origin=origin, problem=problem, is_gguf=is_gguf
        )

    def _roots(self) -> list[Path]:
        return [root.resolve() for root in (*(directory for directory, _ in self._directories), self._cache)]


def _directories(own: Sequence[Path], cache: Path) -> list[tuple[Path, Origin]]:
    """Return the directories of models with their origin, LM Studio's last."""
    taken = {directory.resolve() for directory in (*own, cache)}
    others = (directory for directory in lm_studio_directories() if directory.resolve() not in taken)
    return [
        *((directory, "models directory") for directory in own),
        *((directory, "LM Studio") for directory in others),
    ]


def _named_directory(path: Path) -> NamedDirectory:
    """Return a model directory with its name.

    For the folder of a repository in the hub cache, its snapshot. Raises ModelNotFoundOnDisk.
    """
    directory = path.resolve()
    repository = repository_of_folder(directory.name)
    if repository is not None and not (directory / "config.json").exists():
        cached = cached_repository(repository, directory, most=MAX_ENTRIES)
        if cached.snapshot is None or cached.problem is not None:
            raise ModelNotFoundOnDisk(path, cached.problem or f"model {repository!r} is not downloaded")
        return NamedDirectory(name=repository, path=cached.snapshot)
    return NamedDirectory(name=display_name(directory), path=path)


def _subdirectories(directory: Path) -> list[Path]:
    try:
        with os.scandir(directory) as entries:
            first = [entry for entry, _ in zip(entries, range(MAX_ENTRIES), strict=False)]
    except OSError:
        return []
    return sorted(
        Path(entry.path) for entry in first if entry.is_dir() and not entry.name.startswith((".", "models--"))
    )


def _is_model(directory: Path) -> bool:
    """Whether a directory holds a model in any format.

    An unreadable one may.
    """
    try:
        return (
            (directory / "config.json").is_file()
            or any(directory.glob("*.safetensors"))
            or any(directory.glob("*.gguf"))
        )
    except PermissionError:
        return True


def _is_gguf(directory: Path) -> bool:
    try:
        return not (directory / "config.json").exists() and any(directory.glob("*.gguf"))
    except PermissionError:
        return False


def _find_bad_file(path: Path, name: str, roots: list[Path]) -> str | None:
    """Return why a file must not be read, or None.

    SEC: a downloaded model could contain a link to any file of this machine. A pipe would block its reader.
    """
    if not os.access(path, os.R_OK | os.X_OK):
        return f"model {name!r}: its directory cannot be read: permission denied"
    inside = (*roots, _allowed_root(path))
    for num_files, file in enumerate(_files(path)):
        if num_files >= MAX_ENTRIES:
            return f"model {name!r}: its directory has more than {MAX_ENTRIES:,} files"
        try:
            target = file.resolve()
        except RuntimeError:
            # A link to itself, which nothing can read.
            continue
        if not any(target.is_relative_to(root) for root in inside):
            return f"model {name!r}: {str(file.relative_to(path))!r} is a link that leads out of the library"
        if target.exists() and not (target.is_file() or target.is_dir()):
            return f"model {name!r}: {str(file.relative_to(path))!r} is not a regular file"
    return None


def _allowed_root(path: Path) -> Path:
    """Return the directory that may contain all files of a model.

    Its own, or the hub cache for a snapshot.
    """
    directory = path.resolve()
    repository = directory.parent.parent
    is_snapshot = directory.parent.name == "snapshots" and repository_of_folder(repository.name) is not None
    return repository.parent if is_snapshot else directory


def _files(path: Path) -> Iterator[Path]:
    """Yield files and links below a model directory, hidden directories excluded."""
    for folder, folders, files in os.walk(path):
        links = [name for name in folders if Path(folder, name).is_symlink()]
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(folder, name) for name in (*links, *files))


def completion_names() -> list[str]:
    """Return aliases and model names of the library, sorted, for shell completion.

    Empty where settings or disk cannot be read. Models are not opened: a TAB must be quick.
    """
    try:
        library = Library(resolve(environment=os.environ).library)
        return sorted(
            {
                demo.MODEL_NAME,
                *(alias for alias in library.aliases if not is_pattern(alias)),
                *(entry.name for entry in library.entries() if entry.problem is None),
            }
        )
    except (MlxctlError, OSError):
        return []
