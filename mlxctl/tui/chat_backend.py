"""What answers the chat: a local engine, or a server behind a URL, behind one interface.

Everything heavy is imported in another thread when the backend is opened, so that the first frame is on the
screen before.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from mlxctl.errors import AuthenticationFailed, CapacityError
from mlxctl.ir import GenerationRequest, StreamEvent
from mlxctl.settings import Settings
from mlxctl.tui.observation import Observation

DEMO_CHOICE = "mlxctl-demo"
"""Name of the built-in model where models are chosen."""

if TYPE_CHECKING:
    from mlxctl.bootstrap import Services
    from mlxctl.inference.remote import RemoteInference


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendModel:
    """The model that answers; None is what is not known. `context_length` is in tokens."""

    name: str
    context_length: int | None = None
    supports_tools: bool | None = None
    supports_thinking: bool | None = None
    supports_images: bool | None = None
    is_demo: bool = False

    @property
    def image_rejection(self) -> str | None:
        """Why it does not accept images; None when it does, or when that is not known."""
        return (
            None
            if self.supports_images is not False
            else f"{self.name} reads text only: it does not accept images"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectableModel:
    """A model that could be asked; `note` says more of it, or why it cannot."""

    name: str
    note: str = ""
    is_usable: bool = True


class GenerationStream(Protocol):
    """One answer on its way."""

    def __aiter__(self) -> AsyncIterator[list[StreamEvent]]:
        """Iterate over lists of events; the last event of the last list is Finished."""

    def cancel(self) -> None:
        """Free what runs for it. Idempotent."""


class ChatBackend(Protocol):
    """Opened once, then asked, then closed; event-loop thread only. `where` is for people."""

    address: str

    async def open(self) -> BackendModel:
        """Come up and return the model; may be tried again after an error. Raises MlxctlError."""

    async def list_models(self) -> Sequence[SelectableModel]:
        """Return the models that could be asked. Raises MlxctlError."""

    async def switch(self, name: str) -> BackendModel:
        """Ask another model from now on, as `open` does; after an error no model answers until `open` or
        `switch` succeeds.
        """

    async def start(self, request: GenerationRequest) -> GenerationStream:
        """Begin an answer. Raises MlxctlError."""

    async def observe(self) -> Observation:
        """Return the load of the engine or server; open() comes first. Raises MlxctlError."""

    async def check(self) -> None:
        """Ask whether questions can be answered; open() comes first. Raises MlxctlError."""

    async def close(self) -> None:
        """End everything; safe when it was never open."""


def retry_seconds(error: CapacityError) -> float:
    """Return how long to wait before the next try: what the server asks for, within bounds."""
    return min(max(error.retry_after_seconds, 0.5), 10.0)


class LocalBackend:
    """An engine of our own with the model that the settings name."""

    def __init__(self, settings: Settings) -> None:
        self.address = str(settings.model.path or "the built-in demo model")
        self._settings = settings
        self._services: Services | None = None

    async def open(self) -> BackendModel:
        """Load the model. Raises ModelError, EngineDied."""
        bootstrap = await asyncio.to_thread(_import_bootstrap)
        self._services = bootstrap(self._settings)
        inference = self._services.inference
        await inference.open()
        await inference.wait_ready()
        served = inference.models()[0]
        return BackendModel(
            name=served.name,
            context_length=served.facts.context_length,
            supports_tools=served.supports_tools,
            supports_thinking=served.supports_thinking,
            supports_images=None if served.adapter_verdict is None else served.adapter_verdict.takes_images,
            is_demo=served.is_demo,
        )

    async def list_models(self) -> Sequence[SelectableModel]:
        """The demo model and what the library holds."""
        return await asyncio.to_thread(_list_local_models, self._settings)

    async def switch(self, name: str) -> BackendModel:
        """End the engine and start one with the other model: the memory of the first is free by then."""
        await self.close()
        path = None if name == DEMO_CHOICE else Path(name)
        self._settings = replace(self._settings, model=replace(self._settings.model, path=path, name=None))
        return await self.open()

    async def start(self, request: GenerationRequest) -> GenerationStream:
        """Submit to the engine."""
        assert self._services is not None, "open() comes first"
        return await self._services.inference.generate(request)

    async def observe(self) -> Observation:
        """Ask the engine."""
        assert self._services is not None, "open() comes first"
        inference = self._services.inference
        stats = msgspec.to_builtins(await inference.engine_stats())
        return Observation(
            at=asyncio.get_running_loop().time(), stats=stats, requests=tuple(inference.requests())
        )

    async def check(self) -> None:
        """Do nothing: an engine of our own is started again when it ends."""

    async def close(self) -> None:
        """End the engine."""
        if self._services is not None:
            services, self._services = self._services, None
            await services.inference.close(drain_seconds=0.0)
            services.close()


class RemoteBackend:
    """A server behind a URL; `model` is the name of the one to ask, None for the first that it lists."""

    def __init__(self, url: str, *, model: str | None = None, api_key: str | None = None) -> None:
        self.address = url
        self._model = model
        self._api_key = api_key
        self._inference: RemoteInference | None = None

    async def open(self) -> BackendModel:
        """Ask what is served. Raises ServerUnreachable, UnknownModel, AuthenticationFailed, CapacityError."""
        if self._inference is None:
            remote = await asyncio.to_thread(_import_remote)
            self._inference = remote(self.address, api_key=self._api_key)
        try:
            await self._inference.wait_ready()
        except AuthenticationFailed:
            trouble = "does not accept this API key" if self._api_key else "wants an API key"
            raise AuthenticationFailed(
                f"the server at {self.address} {trouble}: use --api-key KEY or MLXCTL_API_KEY"
            ) from None
        found = self._inference.find_model(self._model)
        return BackendModel(
            name=found.name,
            context_length=found.context_length,
            supports_tools=found.supports_tools,
            supports_thinking=found.supports_thinking,
            supports_images=found.supports_images,
            is_demo=found.is_demo,
        )

    async def list_models(self) -> Sequence[SelectableModel]:
        """What the server lists now."""
        assert self._inference is not None, "open() comes first"
        await self._inference.wait_ready()
        return [
            SelectableModel(name=model.name, note=_context_note(model.context_length))
            for model in self._inference.models()
        ]

    async def switch(self, name: str) -> BackendModel:
        """Name the other model from now on; a server that has to load it does so at the next question."""
        self._model = name
        return await self.open()

    async def start(self, request: GenerationRequest) -> GenerationStream:
        """Send the request."""
        assert self._inference is not None, "open() comes first"
        return await self._inference.generate(request)

    async def observe(self) -> Observation:
        """Ask the server."""
        assert self._inference is not None, "open() comes first"
        return await observe_remote(self._inference)

    async def check(self) -> None:
        """Ask for the list of models."""
        assert self._inference is not None, "open() comes first"
        await self._inference.wait_ready()

    async def close(self) -> None:
        """Close the connections."""
        if self._inference is not None:
            await self._inference.close()


def _list_local_models(settings: Settings) -> list[SelectableModel]:
    from mlxctl.models import Library

    entries = Library(settings.library).entries()
    known = [
        SelectableModel(name=entry.name, note=entry.problem or entry.origin, is_usable=not entry.problem)
        for entry in entries
    ]
    return [SelectableModel(name=DEMO_CHOICE, note="the tiny built-in model"), *known]


def _context_note(context_length: int | None) -> str:
    return f"context {context_length:,}" if context_length else ""


async def observe_remote(remote: "RemoteInference") -> Observation:
    """Ask a server.

    Raises ServerUnreachable, AuthenticationFailed, UnknownResource for one that tells nothing of itself.
    """
    stats, requests = await remote.observe()
    return Observation(at=asyncio.get_running_loop().time(), stats=stats, requests=tuple(requests))


def _import_bootstrap() -> Callable[[Settings], "Services"]:
    from mlxctl.bootstrap import build_services

    return build_services


def _import_remote() -> "type[RemoteInference]":
    from mlxctl.inference.remote import RemoteInference

    return RemoteInference
