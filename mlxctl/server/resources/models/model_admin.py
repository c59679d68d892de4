"""POST /models/load, /models/unload, /models/pin and /models/unpin."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable

import msgspec
from falcon.asgi import Request, Response
from msgspec import Struct

from mlxctl.inference import ServedModel
from mlxctl.inference.call_context import CallContext
from mlxctl.inference.models.manager import Models
from mlxctl.ir.errors import MlxctlError
from mlxctl.ir.models import ModelState
from mlxctl.protocols import problem_error
from mlxctl.server.http.answer import answer
from mlxctl.server.http.body import read_json
from mlxctl.server.http.disconnect import call_at_end
from mlxctl.server.http.error_handlers import record_error
from mlxctl.server.policy.caller import call_of

_MAX_BODY_BYTES = 64 * 1024
_PROGRESS_SECONDS = 0.25


class ModelChoice(Struct, forbid_unknown_fields=True):
    """The model to act on."""

    model: str


class LoadChoice(ModelChoice, forbid_unknown_fields=True):
    """The model to load, and whether to report the progress."""

    stream: bool = False


class ModelStatus(Struct):
    """A model's state after the action."""

    model: str
    state: ModelState
    pinned: bool


class LoadEvent(Struct):
    """Progress of a load: bytes in memory, and bytes of the files.

    A model that waits for others to be unloaded is `not_loaded`.
    """

    model: str
    state: ModelState
    bytes_loaded: int
    bytes_total: int


_CHOICES = msgspec.json.Decoder(ModelChoice)
_LOAD_CHOICES = msgspec.json.Decoder(LoadChoice)


class ModelActionResource:
    """Runs one action on one model and returns its state."""

    def __init__(self, act: Callable[[str, CallContext], Awaitable[ServedModel]]) -> None:
        self._act = act

    async def on_post(self, request: Request, response: Response) -> None:
        """Act on the model that the body names.

        Raises UnknownModel, ModelUnavailable, ModelInUse and other CapacityErrors.
        """
        choice = await read_json(request, _CHOICES, limit_bytes=_MAX_BODY_BYTES)
        action = self._act(choice.model, call_of(request))
        await _answer_status(action, request, response)


class ModelLoadResource:
    """POST /models/load.

    With `stream`, in body or query, the answer is a stream of its progress.
    """

    def __init__(self, manager: Models) -> None:
        self._manager = manager

    async def on_post(self, request: Request, response: Response) -> None:
        """Load the model that the body names.

        A load that fails at once has an error status; later, the error is the stream's last event. Raises
        UnknownModel, ModelUnavailable, CapacityError.
        """
        choice = await read_json(request, _LOAD_CHOICES, limit_bytes=_MAX_BODY_BYTES)
        call = call_of(request)
        if not request.get_param_as_bool("stream", default=choice.stream):
            await _answer_status(self._manager.load(choice.model, call), request, response)
            return
        # What does not exist has an error status, however long its search takes.
        await self._manager.find(choice.model, call)
        load = asyncio.create_task(self._manager.load(choice.model, call), name="load-model")
        call_at_end(request.scope, load.cancel)
        await asyncio.wait({load}, timeout=_PROGRESS_SECONDS)
        if load.done():
            load.result()
        response.content_type = "text/event-stream"
        response.set_headers({"cache-control": "no-cache", "x-accel-buffering": "no"})
        response.stream = self._progress(choice.model, call, load)

    async def _progress(
        self, name: str, call: CallContext, load: asyncio.Task[ServedModel]
    ) -> AsyncGenerator[bytes, None]:
        """Yield events of progress, then the model's state or the error."""
        try:
            while not load.done():
                call.check_deadline()
                progress = await self._manager.load_progress(name, call)
                event = LoadEvent(name, progress.state, progress.num_bytes, progress.num_bytes_total)
                yield _event(msgspec.json.encode(event))
                await asyncio.wait({load}, timeout=_PROGRESS_SECONDS)
            yield _event(_encode_status(load.result()))
        except MlxctlError as error:
            record_error(error, call.record)
            yield _event(problem_error(error, request_id=call.request_id).body)


async def _answer_status(action: Awaitable[ServedModel], request: Request, response: Response) -> None:
    async with call_of(request).within_deadline():
        model = await action
    answer(response, _encode_status(model))


def _encode_status(model: ServedModel) -> bytes:
    return msgspec.json.encode(ModelStatus(model=model.name, state=model.state, pinned=model.is_pinned))


def _event(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"
