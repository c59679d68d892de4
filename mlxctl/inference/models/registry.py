"""Names that requests can use and the models behind them.

Event-loop thread only.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path

from mlxctl.formats.adapters.answer_reader import AnswerReader
from mlxctl.inference.models.served_model import ServedModel, UnusableModel
from mlxctl.ir import Purpose
from mlxctl.ir.allowed_models import AllowedModels
from mlxctl.ir.errors import (
    AmbiguousModelName,
    BrokenModel,
    ModelNotFoundOnDisk,
    ModelUnavailable,
    UnknownModel,
)
from mlxctl.library import DEMO_SHORT_NAME
from mlxctl.library.short_names import repository_of_short_name

FindModel = Callable[[str], ServedModel]
_NO_PATTERNS: Mapping[str, ServedModel] = {}
# No short name is longer; longer ones would fill the memory of the look-ups.
_MAX_SHORT_CHARS = 128
_PURPOSES_OF_ANY_NAME = ("text", "speech", "transcription")


class ModelRegistry:
    """Registered models by name.

    A model directory is one model, however many names it has; the first is its own name. The demo model can
    also be named `demo`, which is in no list.

    The first usable model of `at_start`, by own name, is to be loaded with the engine. `find` reads a model
    of the library by name, never by path, and raises ModelNotFoundOnDisk or BrokenModel; without it only
    registered models can be named. `patterns` are globs of further names, the longest first that matches.
    With `any_name` the first model that writes, speaks or transcribes answers to all other names of such
    requests; None is true while it is the only one that can be named and the caller may use every model.
    """

    def __init__(
        self,
        at_start: Sequence[ServedModel],
        others: Sequence[ServedModel] = (),
        *,
        unusable: Sequence[UnusableModel] = (),
        find: FindModel | None = None,
        patterns: Mapping[str, ServedModel] = _NO_PATTERNS,
        any_name: bool | None = False,
    ) -> None:
        self._models: dict[str, ServedModel] = {}
        self._own_names: dict[str, str] = {}
        self._by_directory: dict[Path, str] = {}
        self._own_name_of_demo: str | None = None
        self._unusable = {model.name: model for model in unusable}
        self._find = find
        for model in (*at_start, *others):
            self._register(model.name, model)
        self._any_name = any_name
        self._patterns = [
            (glob, self._by_directory[patterns[glob].facts.path.resolve()])
            for glob in sorted(patterns, key=len, reverse=True)
        ]
        self.at_start = tuple(dict.fromkeys(self._own_names[model.name] for model in at_start))

    def entries(self, allowed: AllowedModels) -> tuple[tuple[str, ServedModel], ...]:
        """Return every name in order of registration, with its model."""
        return tuple((name, self._models[self._own_names[name]]) for name in self.names(allowed))

    def names(self, allowed: AllowedModels) -> tuple[str, ...]:
        """Return every name in order of registration."""
        return tuple(name for name, own_name in self._own_names.items() if own_name in allowed)

    def unusable(self, allowed: AllowedModels) -> tuple[UnusableModel, ...]:
        """Return configured models that cannot be served."""
        return tuple(model for model in self._unusable.values() if model.name in allowed)

    @property
    def models(self) -> tuple[ServedModel, ...]:
        """Every model once, under its own name."""
        return tuple(self._models.values())

    def model(self, own_name: str) -> ServedModel:
        """Return the model with this own name."""
        return self._models[own_name]

    def own_name(self, name: str) -> str | None:
        """Return the own name of the model registered as `name`."""
        own_name = self._own_names.get(name)
        is_short = own_name is None and name == DEMO_SHORT_NAME and name not in self._unusable
        return self._own_name_of_demo if is_short else own_name

    def own_name_in(self, directory: Path) -> str | None:
        """Return the own name of the registered model in a directory."""
        return self._by_directory.get(directory.resolve())

    def set_capabilities(self, own_name: str, reader: AnswerReader) -> None:
        """Record the capabilities that the model's adapter found."""
        self._models[own_name] = replace(
            self._models[own_name],
            supports_tools=reader.supports_tools,
            supports_thinking=reader.supports_thinking,
            adapter_verdict=reader.verdict,
        )

    def update(self, models: Iterable[ServedModel]) -> None:
        """Replace models by those with facts read later."""
        self._models |= {model.name: model for model in models if model.name in self._models}

    def set_library(self, models: Iterable[ServedModel], *, removed: Iterable[str]) -> None:
        """Register models of the library, and forget those that are `removed`.

        A name or a directory that is registered stays as it is.
        """
        for own_name in removed:
            del self._models[own_name]
            # Its path may have been a link.
            self._by_directory = {path: own for path, own in self._by_directory.items() if own != own_name}
            self._own_names = {name: own for name, own in self._own_names.items() if own != own_name}
        for model in models:
            is_known = model.name in self._own_names or model.name in self._unusable
            if not is_known and self.own_name_in(model.facts.path) is None:
                self._register(model.name, model)

    def resolve(self, registered: str, allowed: AllowedModels) -> ServedModel:
        """Return the model that is registered under a name. Raises UnknownModel, ModelUnavailable.

        SEC: models that the caller may not use are unknown to it, in the error's text too.
        """
        own_name = self.own_name(registered)
        if own_name is not None and own_name in allowed:
            return self._models[own_name]
        if own_name is None and registered in self._unusable and registered in allowed:
            raise ModelUnavailable(registered, self._unusable[registered].reason)
        raise UnknownModel(registered, self.names(allowed))

    async def look_up(self, name: str, allowed: AllowedModels) -> str | None:
        """Return the registered name that a request's `name` stands for.

        None if it stands for none. It may be registered, the name of a model of the library, the part of a
        registered name after the slash, or a short name. Raises UnknownModel for one that
        stands for several models, ModelUnavailable.
        """
        own_name = self.own_name(name)
        if (own_name or name) in allowed and (own_name is not None or name in self._unusable):
            return name
        if own_name is None and await self._is_in_library(name, allowed):
            return name
        names = {each: self._own_names.get(each, each) for each in (*self._own_names, *self._unusable)}
        allowed_names = [each for each, own_name in names.items() if own_name in allowed]
        ends = [each for each in allowed_names if each.rpartition("/")[2] == name]
        shorts = _names_of_short(name) if len(name) <= _MAX_SHORT_CHARS else ()
        full = ends or [each for each in shorts if each in allowed_names]
        found = tuple(dict.fromkeys(names[each] for each in full))
        if len(found) > 1:
            raise UnknownModel(name, found, is_ambiguous=True)
        return found[0] if found else None

    def stand_in(self, name: str, allowed: AllowedModels, purpose: Purpose | None) -> str | None:
        """Return the own name of the model for a name without one.

        None if there is none of the purpose. Requests for vectors and scores are not answered under any name:
        clients store and compare them.
        """
        for glob, own_name in self._patterns:
            is_fit = purpose is None or self._models[own_name].facts.purpose == purpose
            if is_fit and own_name in allowed and fnmatchcase(name, glob):
                return own_name
        if purpose not in _PURPOSES_OF_ANY_NAME or self._any_name is False:
            return None
        names = [model.name for model in self._models.values() if model.facts.purpose == purpose]
        is_only = len(names) == 1 and not self._unusable and self._find is None
        if self._any_name is None and not (is_only and allowed.globs is None):
            return None
        return next((own_name for own_name in names if own_name in allowed), None)

    async def _is_in_library(self, name: str, allowed: AllowedModels) -> bool:
        """Register an allowed model of the library.

        Returns whether there is one. Raises UnknownModel for a name of several, ModelUnavailable.
        """
        if self._find is None:
            return False
        try:
            found = await asyncio.to_thread(self._find, name)
        except AmbiguousModelName as error:
            if len(names := [each for each in error.names if each in allowed]) > 1:
                raise UnknownModel(name, tuple(names), is_ambiguous=True) from None
            return False
        except ModelNotFoundOnDisk:
            return False
        except BrokenModel as error:
            if name not in allowed:
                return False
            raise ModelUnavailable(name, UnusableModel.because(name, error).reason) from None
        own_name = self.own_name_in(found.facts.path) or found.name
        if own_name in allowed:
            self._register(name, found)
        return own_name in allowed

    def _register(self, name: str, model: ServedModel) -> None:
        own_name = self._by_directory.setdefault(model.facts.path.resolve(), model.name)
        self._own_names[name] = own_name
        if model.is_demo:
            self._own_name_of_demo = own_name
        self._models.setdefault(own_name, model)


# PERF: a client repeats its name in every request, and a look-up compares all short names.
@lru_cache(maxsize=256)
def _names_of_short(name: str) -> tuple[str, ...]:
    """Return the repository of a short name, and its end."""
    repository = repository_of_short_name(name)
    return () if repository is None else (repository, repository.rpartition("/")[2])
