"""Which models a server offers: those that the settings name, read from their files. Loads nothing."""

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from mlxctl import demo
from mlxctl.errors import BrokenModel, ModelError, ModelNotFoundOnDisk, SettingsError
from mlxctl.inference import ModelToServe, UnusableModel
from mlxctl.models import Library, LibraryEntry, NamedDirectory, read_model
from mlxctl.models.knowledge import Knowledge
from mlxctl.models.kv_format import chosen_kv_format
from mlxctl.settings import ModelSettings, Settings

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class ConfiguredModels:
    """`named` are those that a person listed, in order; `others` those of directories and aliases; `unusable`
    all that failed.
    """

    named: list[ModelToServe] = field(default_factory=list)
    others: list[ModelToServe] = field(default_factory=list)
    unusable: list[UnusableModel] = field(default_factory=list)

    @property
    def places(self) -> set[tuple[str, Path]]:
        """The names of those that can be used, with where they lie."""
        return {(model.name, model.facts.path.resolve()) for model in (*self.named, *self.others)}

    @property
    def names(self) -> list[str]:
        """The names of all."""
        return [
            *(model.name for model in (*self.named, *self.others)),
            *(model.name for model in self.unusable),
        ]


@dataclass(frozen=True, slots=True)
class _ModelEntry:
    """Something that the settings name: where it lies is only known when it was looked for."""

    name: str
    find: Callable[[], NamedDirectory]
    is_named: bool = False
    is_demo: bool = False


def make_offer(settings: Settings, library: Library, knowledge: Knowledge) -> ConfiguredModels:
    """Read the models that the settings name, or the built-in demo model when they name none.

    A model whose files cannot be used is `unusable`; one that the settings name and that is not there is an
    error. Raises SettingsError for two models of one name, a directory that is not there and a pin on
    nothing; ModelError for a named model that is not there, and when none of the models can be used.
    """
    offer, failures = ConfiguredModels(), list[ModelError]()
    for wish in _wishes(settings, library):
        try:
            trusted = wish.is_named and settings.model.trust_remote_code
            model = replace(
                _read(wish.find(), knowledge, library, served_as=wish.name, trust_remote_code=trusted),
                name=wish.name,
                is_demo=wish.is_demo,
                kv_format=chosen_kv_format(settings, wish.name),
            )
        except ModelError as error:
            if wish.is_named and isinstance(error, ModelNotFoundOnDisk):
                raise
            if wish.name not in offer.names:
                failures.append(error)
                offer.unusable.append(UnusableModel.because(wish.name, error))
            continue
        # A directory of models may well hold one that was also named.
        if (wish.name, model.facts.path.resolve()) not in offer.places:
            (offer.named if wish.is_named else offer.others).append(model)
    _check_that_some_are_left(offer, failures, settings)
    _check_names(offer, settings)
    directories = [model.facts.path.name for model in (*offer.named, *offer.others)]
    knowledge.warn_of_unmatched([*offer.names, *directories], library)
    return offer


def read_library_model(
    name: str, *, settings: Settings, library: Library, knowledge: Knowledge
) -> ModelToServe:
    """Read a model of the library by its name or alias, never by a path.

    Raises ModelNotFoundOnDisk, BrokenModel.
    """
    model = _read(library.find_named(name), knowledge, library, served_as=name, trust_remote_code=False)
    return replace(model, kv_format=chosen_kv_format(settings, name))


def read_local_model(name: str, *, library: Library, knowledge: Knowledge) -> ModelToServe:
    """Read a model of the library, or the demo model, by its name.

    Raises ModelNotFoundOnDisk, BrokenModel.
    """
    found = (
        NamedDirectory(name=name, path=demo.MODEL_DIR)
        if name == demo.MODEL_NAME
        else library.find_named(name)
    )
    return _read(found, knowledge, library, served_as=name, trust_remote_code=False)


def _wishes(settings: Settings, library: Library) -> Iterator[_ModelEntry]:
    pool = settings.pool
    if settings.model.path is not None or not (pool.models or pool.dirs):
        first = partial(_first, settings.model, library)
        name = settings.model.name or _name(settings.model.path, library)
        yield _ModelEntry(name, first, is_named=True, is_demo=settings.model.path is None)
    for path in pool.models:
        yield _ModelEntry(_name(path, library), partial(library.resolve, str(path)), is_named=True)
    taken = {_name(path, library) for path in (settings.model.path, *pool.models)}
    for entry in _entries(pool.dirs, library):
        yield _ModelEntry(entry.name, partial(_directory_of, entry))
    yield from (
        _ModelEntry(alias, partial(library.find_named, alias))
        for alias in library.aliases
        if alias not in taken
    )


def _first(settings: ModelSettings, library: Library) -> NamedDirectory:
    if settings.path is None:
        return NamedDirectory(name=demo.MODEL_NAME, path=demo.MODEL_DIR)
    return library.resolve(str(settings.path))


def _name(path: Path | None, library: Library) -> str:
    """Return the name of what is served from `path`, which need not exist."""
    if path is None:
        return demo.MODEL_NAME
    try:
        return library.resolve(str(path)).name
    except ModelError:
        return path.name


def _entries(directories: tuple[Path, ...], library: Library) -> list[LibraryEntry]:
    for directory in directories:
        if not directory.is_dir():
            raise SettingsError(f"there is no directory of models at {str(directory)!r}")
    found = library.entries() if directories else []
    return [
        entry for entry in found if any(entry.folder.is_relative_to(directory) for directory in directories)
    ]


def _directory_of(entry: LibraryEntry) -> NamedDirectory:
    if entry.problem is not None:
        raise BrokenModel(entry.path, entry.problem)
    return NamedDirectory(name=entry.name, path=entry.path)


def _read(
    found: NamedDirectory, knowledge: Knowledge, library: Library, *, served_as: str, trust_remote_code: bool
) -> ModelToServe:
    facts = read_model(found.path, trust_remote_code=trust_remote_code)
    known = knowledge.of(found.name, found.path, library, served_as=served_as)
    return ModelToServe(
        name=found.name,
        facts=facts,
        capabilities=known.capabilities,
        verdicts=known.verdicts,
        trust_remote_code=trust_remote_code,
    )


def _check_that_some_are_left(
    offer: ConfiguredModels, failures: list[ModelError], settings: Settings
) -> None:
    if offer.named or offer.others:
        for failure in failures:
            _log.error("%s", failure)
    elif len(failures) == 1:
        raise failures[0]
    elif failures:
        raise BrokenModel(failures[0].path, "no model can be served: " + "; ".join(map(str, failures)))
    elif not settings.pool.allow_library:
        raise SettingsError(
            f"there is no model in {', '.join(str(directory) for directory in settings.pool.dirs)}"
        )


def _check_names(offer: ConfiguredModels, settings: Settings) -> None:
    twice = [name for name, num in Counter(offer.names).items() if num > 1]
    if twice:
        raise SettingsError(
            f"two models are called {twice[0]!r}: give one an alias (mlxctl models alias) and name it by that"
        )
    for pin in settings.pool.pins:
        if pin not in offer.names:
            raise SettingsError(f"there is no model {pin!r} to pin; there are: {', '.join(offer.names)}")
    _check_names_with_bits(offer, settings)


def _check_names_with_bits(offer: ConfiguredModels, settings: Settings) -> None:
    own_names: dict[Path, str] = {}
    for model in (*offer.named, *offer.others):
        own_name = own_names.setdefault(model.facts.path.resolve(), model.name)
        if model.name != own_name and model.name in settings.pool.kv_bits_by_name:
            raise SettingsError(
                f"{model.name!r} is another name of {own_name!r}: use that one in pool.kv_bits_by_name"
            )
    for name in settings.pool.kv_bits_by_name:
        if name not in offer.names and not settings.pool.allow_library:
            raise SettingsError(
                f"there is no model {name!r} for pool.kv_bits_by_name; there are: {', '.join(offer.names)}"
            )
