"""LoRA adapters of the served models: names, mounting, choice. Event-loop thread only."""

import asyncio
import re
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from mlxctl.engine import EngineClient, ModelLoaded
from mlxctl.inference.models.adapter_directories import AdapterDirectories, FindDirectory
from mlxctl.inference.models.registry import ModelRegistry
from mlxctl.inference.preparation import PackedRequest
from mlxctl.ir import GenerationRequest
from mlxctl.ir.allowed_models import EVERY_MODEL, AllowedModels
from mlxctl.ir.errors import (
    BrokenModel,
    Conflict,
    InvalidRequest,
    ModelError,
    UnknownModel,
    UnknownResource,
)
from mlxctl.ir.lora import MAX_STACKED_ADAPTERS, LoraChoice, LoraSpec, stack_digest
from mlxctl.library.lora_files import read_lora
from mlxctl.state.settings import AdapterSettings

NO_ADAPTERS = "none"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
Changed = TypeVar("Changed")


@dataclass(slots=True, eq=False, kw_only=True)
class ServedAdapter:
    """An adapter that requests can name; `base` is its model's own name.

    `shown_path` is the path or library name that it was mounted by.
    """

    base: str
    spec: LoraSpec
    shown_path: str

    @property
    def name(self) -> str:
        """Its name in requests, after the model's name and a colon."""
        return self.spec.name

    @property
    def full_name(self) -> str:
        """Its name as a model."""
        return f"{self.base}:{self.name}"


class LoraRegistry:
    """Adapters by model and name.

    The engine mounts an adapter when it is added, and again before the first request after its model or the
    engine was loaded again. `find` as in AdapterDirectories. A caller has the adapters of the models that it
    is `allowed` to use; others are unknown to it.
    """

    def __init__(
        self, engine: EngineClient, models: ModelRegistry, settings: AdapterSettings, find: FindDirectory
    ) -> None:
        """Read the configured adapters. Blocks. Raises ModelError, UnknownModel, InvalidRequest."""
        self._engine = engine
        self._models = models
        self._settings = settings
        self._directories = AdapterDirectories(settings.dirs, find)
        self._adapters: dict[tuple[str, str], ServedAdapter] = {}
        # By model: its load, and the adapters that the engine has mounted since.
        self._mounted: dict[str, tuple[ModelLoaded, set[str]]] = {}
        self._changing = asyncio.Lock()
        # The adapter that is being unmounted; requests that choose it wait for the result.
        self._leaving: ServedAdapter | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        for text, path in settings.paths.items():
            base, _, name = text.rpartition(":")
            own_name = self.own_name(base or None, EVERY_MODEL)
            directory = self._directories.find_configured(path)
            self._check_new(own_name, name)
            spec = read_lora(directory, name=name, base=models.model(own_name).facts.path)
            self._adapters[own_name, name] = ServedAdapter(base=own_name, spec=spec, shown_path=path.name)
        self._default = tuple(LoraChoice(name=name) for name in (settings.default or "").split("+") if name)
        configured = {name for _, name in self._adapters}
        if missing := [each.name for each in self._default if each.name not in configured]:
            raise InvalidRequest(f"adapters.default names {missing[0]!r}, which is not in adapters.paths")

    def adapters(self, allowed: AllowedModels) -> tuple[ServedAdapter, ...]:
        """Return the adapters in order of addition."""
        return tuple(each for each in self._adapters.values() if each.base in allowed)

    def base_of(self, name: str, allowed: AllowedModels) -> str:
        """Return the base model of an adapter's full name.

        Other names are returned unchanged.
        """
        return next((each.base for each in self.adapters(allowed) if each.full_name == name), name)

    def names_adapter(self, name: str, allowed: AllowedModels) -> bool:
        """Whether a name is that of an adapter.

        Or that of a model with an adapter, which may not be mounted.
        """
        if not self._adapters or self._models.own_name(name) is not None:
            return False
        has_base = self._allowed_name(name.rpartition(":")[0], allowed) is not None
        return has_base or any(each.name == name for each in self.adapters(allowed))

    def apply(self, request: PackedRequest, allowed: AllowedModels) -> PackedRequest:
        """Return the request with its base model and final adapters.

        Raises UnknownModel for an unknown adapter in the model's name, InvalidRequest for one in a field. A
        model that the caller may not use is left to the registry of models, and has no adapters here.
        """
        head = request.head
        base, named = self._split(head.model, allowed)
        own_name = self._allowed_name(base, allowed)
        if head.adapters is not None and named:
            raise InvalidRequest("adapter is set, and model names one too; use one of them", param="adapter")
        choices = named if head.adapters is None else head.adapters
        if head.adapters is None and not named and own_name is not None:
            choices = self._default_of(own_name)
        choices = tuple(each for each in choices if each.name != NO_ADAPTERS)
        if not choices:
            return (
                request
                if head.model == base and not head.adapters
                else request.with_head(model=base, adapters=())
            )
        if own_name is None:
            raise _not_mounted(choices[0], base, ())
        for each in choices:
            self._chosen(own_name, each)
        if len({each.name for each in choices}) < len(choices):
            raise InvalidRequest("adapter names one adapter twice; set its scale instead", param="adapter")
        if len(choices) > MAX_STACKED_ADAPTERS:
            raise InvalidRequest(
                f"adapter names {len(choices)} adapters; a request may use {MAX_STACKED_ADAPTERS}",
                param="adapter",
            )
        cache = replace(head.cache, adapters_digest=self._digest(own_name, choices))
        return request.with_head(model=base, adapters=choices, cache=cache)

    async def ensure_mounted(self, own_name: str, head: GenerationRequest) -> None:
        """Mount the adapters of a request on its loaded model.

        They stay mounted until the caller waits for something else than its answer. Raises InvalidRequest,
        Conflict, EngineError.
        """
        choices = head.adapters or ()
        while missing := [each for each in choices if not self._is_ready(self._chosen(own_name, each))]:
            await self._finish(self._mount_chosen(own_name, missing[0]))
        if choices and self._digest(own_name, choices) != head.cache.adapters_digest:
            raise Conflict("an adapter of this request was mounted again meanwhile; send the request again")

    async def mount_configured(self) -> None:
        """Mount all adapters of loaded models. Raises BrokenModel, EngineError."""
        for adapter in tuple(self._adapters.values()):
            if adapter.base in self._engine.loaded:
                try:
                    await self._mount(adapter)
                except InvalidRequest as error:
                    raise BrokenModel(adapter.spec.file.parent, str(error)) from None

    async def add(self, name: str, path: str, base: str | None, allowed: AllowedModels) -> ServedAdapter:
        """Mount an adapter on a model, loading the model if needed.

        `path` as in AdapterDirectories.find. Raises UnknownModel, InvalidRequest, Conflict, EngineError.
        """
        return await self._finish(self._add(self.own_name(base, allowed), name, path))

    async def remove(self, name: str, base: str | None, allowed: AllowedModels) -> ServedAdapter:
        """Unmount an adapter. Raises UnknownModel, UnknownResource, Conflict, EngineError."""
        return await self._finish(self._remove(self.own_name(base, allowed), name))

    async def _finish(self, change: Coroutine[Any, Any, Changed]) -> Changed:
        """Run a change to its end, even if its caller is cancelled.

        The engine ends what it began, and the names must agree with it.
        """
        task = asyncio.create_task(change)
        self._tasks.add(task)
        task.add_done_callback(self._end_task)
        return await asyncio.shield(task)

    def _end_task(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            # A cancelled caller does not read the error.
            task.exception()

    async def _mount_chosen(self, own_name: str, choice: LoraChoice) -> None:
        async with self._changing:
            await self._mount(self._chosen(own_name, choice))

    async def _add(self, own_name: str, name: str, path: str) -> ServedAdapter:
        async with self._changing:
            self._check_new(own_name, name)
            if len(self._adapters) >= self._settings.max_mounted:
                raise Conflict(
                    f"{len(self._adapters)} adapters are mounted (adapters.max_mounted); unmount one"
                )
            spec = await asyncio.to_thread(self._read, own_name, name, path)
            adapter = ServedAdapter(base=own_name, spec=spec, shown_path=path)
            await self._mount(adapter)
            self._adapters[own_name, name] = adapter
            return adapter

    async def _remove(self, own_name: str, name: str) -> ServedAdapter:
        async with self._changing:
            adapter = self._adapters.get((own_name, name))
            if adapter is None:
                raise UnknownResource(f"adapter {name!r} is not mounted on model {own_name!r}")
            if name in {each.name for each in self._default_of(own_name)}:
                raise Conflict(f"adapter {name!r} is adapters.default of model {own_name!r}")
            if name in self._names_mounted(own_name):
                self._leaving = adapter
                try:
                    failure = await self._engine.unmount_lora(own_name, name)
                finally:
                    self._leaving = None
                # A model that was unloaded meanwhile has no adapters.
                if failure and name in self._names_mounted(own_name):
                    raise Conflict(failure)
            self._names_mounted(own_name).discard(name)
            del self._adapters[own_name, name]
            return adapter

    def own_name(self, base: str | None, allowed: AllowedModels) -> str:
        """Return the own name of a model.

        None is the first one. Raises UnknownModel.
        """
        if base is None and (entries := self._models.entries(allowed)):
            return entries[0][1].name
        own_name = self._allowed_name(base or "", allowed)
        if own_name is None:
            raise UnknownModel(base or "", self._models.names(allowed))
        return own_name

    def _allowed_name(self, name: str, allowed: AllowedModels) -> str | None:
        """Return the own name of a registered model that is allowed."""
        own_name = self._models.own_name(name)
        return own_name if own_name is not None and own_name in allowed else None

    def _split(self, name: str, allowed: AllowedModels) -> tuple[str, tuple[LoraChoice, ...]]:
        """Return base model and adapters of a model name.

        `BASE:A+B` is a base with two adapters; an adapter's name alone suffices if only one model has it.
        """
        if not self._adapters or self._models.own_name(name) is not None:
            return name, ()
        base, colon, rest = name.rpartition(":")
        names = rest.split("+")
        if colon and (own_name := self._allowed_name(base, allowed)) is not None:
            if rest != NO_ADAPTERS and any((own_name, each) not in self._adapters for each in names):
                adapters = (each.full_name for each in self.adapters(allowed))
                raise UnknownModel(name, (*self._models.names(allowed), *adapters))
            return base, tuple(LoraChoice(name=each) for each in names)
        bases = {adapter.base for adapter in self.adapters(allowed) if adapter.name == name}
        return (bases.pop(), (LoraChoice(name=name),)) if len(bases) == 1 else (name, ())

    def _default_of(self, own_name: str) -> tuple[LoraChoice, ...]:
        """Return the default adapters, if the model has all of them."""
        has_all = all((own_name, each.name) in self._adapters for each in self._default)
        return self._default if has_all else ()

    def _chosen(self, own_name: str, choice: LoraChoice) -> ServedAdapter:
        adapter = self._adapters.get((own_name, choice.name))
        if adapter is None:
            raise _not_mounted(choice, own_name, [name for base, name in self._adapters if base == own_name])
        return adapter

    def _is_ready(self, adapter: ServedAdapter) -> bool:
        return adapter is not self._leaving and adapter.name in self._names_mounted(adapter.base)

    def _digest(self, own_name: str, choices: Sequence[LoraChoice]) -> bytes:
        """Return the digest of chosen adapters and scales. Raises InvalidRequest."""
        return stack_digest((self._chosen(own_name, each).spec.digest, each.scale) for each in choices)

    def _check_new(self, own_name: str, name: str) -> None:
        if not _NAME.fullmatch(name) or name == NO_ADAPTERS:
            raise InvalidRequest(
                f"adapter name {name!r} is not possible; use up to 128 letters, digits, '.', '_' and '-'",
                param="id",
            )
        if (own_name, name) in self._adapters:
            raise Conflict(f"adapter {name!r} is mounted on model {own_name!r} already", param="id")
        if self._models.model(own_name).facts.purpose != "text":
            raise InvalidRequest(f"model {own_name!r} does not generate text, so it takes no adapter")

    def _read(self, own_name: str, name: str, path: str) -> LoraSpec:
        try:
            directory = self._directories.find(path)
            spec = read_lora(directory, name=name, base=self._models.model(own_name).facts.path)
        except ModelError as error:
            raise InvalidRequest(error.without_path(path), param="path") from None
        return spec

    def _names_mounted(self, own_name: str) -> set[str]:
        """Return the adapters mounted since the model was loaded last."""
        loaded = self._engine.loaded.get(own_name)
        known = self._mounted.get(own_name)
        if loaded is None:
            return set()
        if known is None or known[0] is not loaded:
            known = self._mounted[own_name] = loaded, set()
        return known[1]

    async def _mount(self, adapter: ServedAdapter) -> None:
        mounted = self._names_mounted(adapter.base)
        if adapter.name in mounted:
            return
        if failure := await self._engine.mount_lora(adapter.base, adapter.spec):
            raise InvalidRequest(f"adapter {adapter.name!r} cannot be mounted: {failure}", param="path")
        mounted.add(adapter.name)


def _not_mounted(choice: LoraChoice, model: str, mounted: Sequence[str]) -> InvalidRequest:
    return InvalidRequest(
        f"adapter {choice.name!r} is not mounted on model {model!r}; mounted: {', '.join(mounted) or 'none'}",
        param="adapter",
        code="adapter_not_found",
    )
