"""Which models requests can name: those that were registered, under each of their names, and if allowed those
of the library.
"""

import asyncio
from collections.abc import Callable, Sequence

from mlxctl.errors import BrokenModel, ModelNotFoundOnDisk, ModelUnavailable, UnknownModel
from mlxctl.inference.models.served_model import ModelToServe, UnusableModel

FindModel = Callable[[str], ModelToServe]


class ModelRegistry:
    """Names and the models behind them.

    A directory is one model, however many names it has; the first name is its own.

    `find` reads a model of the library by its name, never by a path, and raises ModelNotFoundOnDisk or
    BrokenModel; without it only what was registered can be named.
    """

    def __init__(
        self,
        models: Sequence[ModelToServe],
        *,
        unusable: Sequence[UnusableModel] = (),
        find: FindModel | None = None,
    ) -> None:
        self._models: dict[str, ModelToServe] = {}
        self._by_directory: dict[object, str] = {}
        self._named: dict[str, ModelToServe] = {}
        self._unusable = {model.name: model for model in unusable}
        self._find = find
        for model in models:
            self._register(model.name, model)

    @property
    def entries(self) -> tuple[tuple[str, ModelToServe], ...]:
        """Every name in the order of registration, with its model."""
        return tuple(self._named.items())

    @property
    def unusable(self) -> tuple[UnusableModel, ...]:
        """What was registered and cannot be served."""
        return tuple(self._unusable.values())

    @property
    def models(self) -> tuple[ModelToServe, ...]:
        """The models, each once."""
        return tuple(self._models.values())

    def model(self, own_name: str) -> ModelToServe:
        """Return the model of this, its own name."""
        return self._models[own_name]

    def own_name(self, name: str) -> str | None:
        """Return the own name of the model that is registered as `name`."""
        model = self._named.get(name)
        return model.name if model else None

    async def resolve(self, name: str) -> ModelToServe:
        """Return the model that a request names. Raises UnknownModel, ModelUnavailable."""
        if name in self._named:
            return self._named[name]
        if name in self._unusable:
            raise ModelUnavailable(name, self._unusable[name].reason)
        if self._find is None:
            raise UnknownModel(name, tuple(self._named))
        try:
            found = await asyncio.to_thread(self._find, name)
        except ModelNotFoundOnDisk:
            raise UnknownModel(name, tuple(self._named)) from None
        except BrokenModel as error:
            raise ModelUnavailable(name, UnusableModel.because(name, error).reason) from None
        return self._register(name, found)

    def _register(self, name: str, model: ModelToServe) -> ModelToServe:
        own_name = self._by_directory.setdefault(model.facts.path.resolve(), model.name)
        self._named[name] = self._models.setdefault(own_name, model)
        return self._named[name]
