"""Chat backends: a local engine or a remote server.

Heavy modules are imported in a worker thread when the backend is opened, after the first frame.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from mlxctl.chat.attachments import Attachment, with_document_tags
from mlxctl.chat.observation import Observation
from mlxctl.ir import AudioPart, DocumentPart, GenerationRequest, SeenPart, SpeechChunk, SpeechRequest
from mlxctl.ir.errors import AuthenticationFailed, CapacityError
from mlxctl.state.installed import missing_for
from mlxctl.state.settings import Settings

DEMO_CHOICE = "mlxctl-demo"
"""Name of the built-in demo model in the model list."""

if TYPE_CHECKING:
    from mlxctl.inference.interface import AnswerStream, CacheEntry, Inference, ModelInfo
    from mlxctl.inference.local import LocalInference
    from mlxctl.inference.remote import RemoteInference
    from mlxctl.inference.remote.model_list import RemoteModel
    from mlxctl.server.wiring import Services


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendModel:
    """The model in use.

    Unknown values are None; `context_length` is in tokens. `document_problem` is why no PDF can be read.
    `voices` are those of a speech model.
    """

    name: str
    context_length: int | None = None
    supports_tools: bool | None = None
    supports_thinking: bool | None = None
    supports_images: bool | None = None
    supports_audio: bool | None = None
    document_problem: str | None = None
    is_demo: bool = False
    voices: tuple[str, ...] = ()

    @classmethod
    def of(cls, model: "ModelInfo", **given: Any) -> "BackendModel":
        """Copy the properties of a model of an `Inference`; others are `given`."""
        known = {each.name: getattr(model, each.name) for each in fields(cls) if hasattr(model, each.name)}
        return cls(**known | given)

    def rejection(self, attached: Sequence[Attachment]) -> str | None:
        """Return why the model rejects attachments.

        None if it accepts them, or if that is unknown.
        """
        if self.supports_images is False and any(isinstance(one, SeenPart) for one in attached):
            return f"{self.name} accepts no images or videos"
        if self.supports_audio is False and any(isinstance(one, AudioPart) for one in attached):
            return f"{self.name} accepts no audio"
        return self.document_problem if any(isinstance(one, DocumentPart) for one in attached) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectableModel:
    """A listed model; `note` describes it or says why it is unusable."""

    name: str
    note: str = ""
    is_usable: bool = True


class ChatBackend(Protocol):
    """What the chat needs of a model. Event-loop thread only.

    Call `open` first and `close` last; `address` is text for the screen.
    """

    address: str

    async def open(self) -> BackendModel:
        """Connect or load, and return the model.

        May be called again after an error. Raises MlxctlError.
        """

    async def list_models(self) -> Sequence[SelectableModel]:
        """Return the models that can be selected. Raises MlxctlError."""

    async def switch(self, name: str) -> BackendModel:
        """Use another model from now on.

        Raises what `open` raises; after an error no model is loaded until `open` opens the former one again,
        or `switch` succeeds.
        """

    async def start(self, request: GenerationRequest) -> "AnswerStream":
        """Start a generation. Raises MlxctlError."""

    def speech_model(self) -> str | None:
        """Return the model that speaks texts, None without one."""

    def speak(self, request: SpeechRequest) -> AsyncGenerator[SpeechChunk, None]:
        """Speak a text; raises MlxctlError. Closing the iterator stops it."""

    async def observe(self) -> Observation:
        """Return the statistics of the engine or server. Raises MlxctlError."""

    async def cancel(self, request_id: str) -> list[int]:
        """Cancel an open request; return the numbers of its answers. Raises MlxctlError."""

    async def cached_entries(self, limit: int) -> "Sequence[CacheEntry]":
        """Return prefix-cache entries, the most recently used first. Raises MlxctlError."""

    async def check(self) -> None:
        """Check that the backend is reachable. Raises MlxctlError."""

    async def close(self) -> None:
        """Release everything; safe before `open`."""


def retry_seconds(error: CapacityError) -> float:
    """Return the delay before a retry: Retry-After, within bounds."""
    return min(max(error.retry_after_seconds, 0.5), 10.0)


class _InferenceBackend:
    """What backends do with their `Inference` once they are open."""

    _opened: "Inference | None" = None

    @property
    def _inference(self) -> "Inference":
        assert self._opened is not None, "open() comes first"
        return self._opened

    async def start(self, request: GenerationRequest) -> "AnswerStream":
        return await self._inference.generate(request)

    def speech_model(self) -> str | None:
        return next((model.name for model in self._inference.models() if model.can_speak), None)

    def speak(self, request: SpeechRequest) -> AsyncGenerator[SpeechChunk, None]:
        return self._inference.speak(request)

    async def observe(self) -> Observation:
        return await observe(self._inference)

    async def cancel(self, request_id: str) -> list[int]:
        return await self._inference.cancel(request_id)

    async def cached_entries(self, limit: int) -> "Sequence[CacheEntry]":
        return await self._inference.cached_entries(limit)


class LocalBackend(_InferenceBackend):
    """An engine in a child process, with the model of the settings."""

    def __init__(self, settings: Settings) -> None:
        self.address = str(settings.model.path or "the built-in demo model")
        self._settings = settings
        self._services: Services | None = None

    async def open(self) -> BackendModel:
        """Load the model. Raises ModelError, EngineDied."""
        # Not two engines, where an earlier call has failed.
        await self.close()
        bootstrap, local = await asyncio.to_thread(_import_local)
        self._services = bootstrap(self._settings)
        self._opened = local(self._services.inference)
        await self._services.inference.open()
        await self._inference.wait_ready()
        missing = missing_for("pdf")
        problem = f"PDF files need {missing}" if missing else None
        return BackendModel.of(self._inference.models()[0], document_problem=problem)

    async def list_models(self) -> Sequence[SelectableModel]:
        return await asyncio.to_thread(_list_local_models, self._settings)

    async def switch(self, name: str) -> BackendModel:
        """Restart the engine with another model, freeing the first one's memory."""
        await self.close()
        path, before = None if name == DEMO_CHOICE else Path(name), self._settings
        self._settings = replace(before, model=replace(before.model, path=path, name=None))
        try:
            return await self.open()
        except BaseException:
            self._settings = before
            await self.close()
            raise

    async def start(self, request: GenerationRequest) -> "AnswerStream":
        return await super().start(with_document_tags(request))

    async def check(self) -> None:
        """Do nothing: the supervisor restarts a local engine by itself."""

    async def close(self) -> None:
        """Stop the engine of this process."""
        if self._services is not None:
            services, self._services, self._opened = self._services, None, None
            await services.inference.close(drain_seconds=0.0)
            services.close()


class RemoteBackend(_InferenceBackend):
    """A server behind a URL.

    `model` is a name that the server lists; None means the first one.
    """

    def __init__(self, url: str, *, model: str | None = None, api_key: str | None = None) -> None:
        self.address = url
        self._model = model
        self._api_key = api_key
        self._remote: RemoteInference | None = None

    async def open(self) -> BackendModel:
        """List the server's models and choose one.

        Raises ServerUnreachable, UnknownModel, AuthenticationFailed, CapacityError.
        """
        if self._remote is None:
            remote = await asyncio.to_thread(_import_remote)
            self._opened = self._remote = remote(self.address, api_key=self._api_key)
        try:
            await self._remote.wait_ready()
        except AuthenticationFailed:
            from mlxctl.inference.remote.errors import key_problem

            raise key_problem(self.address, has_key=bool(self._api_key)) from None
        model = self._remote.find_model(self._model)
        problem = (
            f"the server at {self.address} cannot read PDF files; install there: pip install 'mlxctl[pdf]'"
            if model.supports_documents is False
            else None
        )
        return BackendModel.of(model, document_problem=problem)

    async def list_models(self) -> Sequence[SelectableModel]:
        assert self._remote is not None, "open() comes first"
        await self._remote.wait_ready()
        return [
            SelectableModel(
                name=model.name,
                note=_note(model) if model.can_chat else f"for {model.kind}",
                is_usable=model.can_chat,
            )
            for model in self._remote.models()
        ]

    async def switch(self, name: str) -> BackendModel:
        """Choose another model; the server loads it with the next question."""
        self._model, before = name, self._model
        try:
            return await self.open()
        except BaseException:
            self._model = before
            raise

    async def check(self) -> None:
        await self._inference.wait_ready()

    async def close(self) -> None:
        if self._remote is not None:
            await self._remote.close()


def _list_local_models(settings: Settings) -> list[SelectableModel]:
    from mlxctl.library import Library

    entries = Library(settings.library).entries()
    known = [
        SelectableModel(name=entry.name, note=entry.problem or entry.origin, is_usable=not entry.problem)
        for entry in entries
    ]
    return [SelectableModel(name=DEMO_CHOICE, note="the tiny built-in model"), *known]


def _note(model: "RemoteModel") -> str:
    """Return its context, and its state or the server that has it."""
    context = f"context {model.context_length:,}" if model.context_length else ""
    place = f"on {model.remote}" if model.remote else (model.state or "").replace("_", " ")
    return ", ".join(filter(None, (context, place)))


async def observe(inference: "Inference") -> Observation:
    """Return the statistics of an engine or server.

    Raises what its `stats` raises.
    """
    stats = await inference.stats()
    return Observation(at=asyncio.get_running_loop().time(), stats=stats.counters, requests=stats.requests)


def _import_local() -> "tuple[Callable[[Settings], Services], type[LocalInference]]":
    from mlxctl.inference.local import LocalInference
    from mlxctl.server.wiring import build_services

    return build_services, LocalInference


def _import_remote() -> "type[RemoteInference]":
    from mlxctl.inference.remote import RemoteInference

    return RemoteInference
