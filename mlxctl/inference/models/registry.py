"""Names that requests can use and the models behind them.

Event-loop thread only.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from mlxctl.adapters.answer_reader import AnswerReader
from mlxctl.errors import BrokenModel, ModelNotFoundOnDisk, ModelUnavailable, UnknownModel
from mlxctl.inference.models.served_model import ServedModel, UnusableModel
from mlxctl.ir.allowed_models import AllowedModels
from mlxctl.models import DEMO_SHORT_NAME

FindModel = Callable[[str], ServedModel]


class ModelRegistry:
    """Registered models by name.

    A model directory is one model, however many names it has; the first is its own name. The demo model can
    also be named `demo`, which is in no list.

    The first usable model of `at_start`, by own name, is to be loaded with the engine. `find` reads a model
    of the library by name, never by path, and raises ModelNotFoundOnDisk or BrokenModel; without it only
    registered models can be named.
    """

    def __init__(
        self,
        at_start: Sequence[ServedModel],
        others: Sequence[ServedModel] = (),
        *,
        unusable: Sequence[UnusableModel] = (),
        find: FindModel | None = None,
    ) -> None:
        self._models: dict[str, ServedModel] = {}
        self._own_names: dict[str, str] = {}
        self._by_directory: dict[Path, str] = {}
        self._own_name_of_demo: str | None = None
        self._unusable = {model.name: model for model in unusable}
        self._find = find
        for model in (*at_start, *others):
            self._register(model.name, model)
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

    async def resolve(self, name: str, allowed: AllowedModels) -> ServedModel:
        """Return the model that a request names. Raises UnknownModel, ModelUnavailable.

        SEC: models that the caller may not use are unknown to it, in the error's text too.
        """
        if (own_name := self.own_name(name)) is not None:
            if own_name in allowed:
                return self._models[own_name]
        elif name in self._unusable:
            if name in allowed:
                raise ModelUnavailable(name, self._unusable[name].reason)
        elif self._find is not None and (found := await self._find_allowed(name, self._find, allowed)):
            return found
        raise UnknownModel(name, self.names(allowed))

    async def _find_allowed(self, name: str, find: FindModel, allowed: AllowedModels) -> ServedModel | None:
        """Register a model of the library that is allowed.

        None if there is none. Raises ModelUnavailable.
        """
        try:
            found = await asyncio.to_thread(find, name)
        except ModelNotFoundOnDisk:
            return None
        except BrokenModel as error:
            if name not in allowed:
                return None
            raise ModelUnavailable(name, UnusableModel.because(name, error).reason) from None
        own_name = self.own_name_in(found.facts.path) or found.name
        return self._register(name, found) if own_name in allowed else None

    def _register(self, name: str, model: ServedModel) -> ServedModel:
        own_name = self._by_directory.setdefault(model.facts.path.resolve(), model.name)
        self._own_names[name] = own_name
        if model.is_demo:
            self._own_name_of_demo = own_name
        return self._models.setdefault(own_name, model)
