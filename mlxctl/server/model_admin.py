"""POST /models/load, /models/unload, /models/pin and /models/unpin."""

from collections.abc import Awaitable, Callable

import falcon
import msgspec
from falcon.asgi import Request, Response
from msgspec import Struct

from mlxctl.inference import ServedModel
from mlxctl.ir.models import ModelState
from mlxctl.server.body import read_json
from mlxctl.server.deadline import deadline_of
from mlxctl.settings import ServerSettings

_MAX_BODY_BYTES = 64 * 1024


class ModelChoice(Struct, forbid_unknown_fields=True):
    """The model to act on."""

    model: str


class ModelStatus(Struct):
    """A model's state after the action."""

    model: str
    state: ModelState
    pinned: bool


_CHOICES = msgspec.json.Decoder(ModelChoice)


class ModelActionResource:
    """Runs one action on one model and returns its state."""

    def __init__(self, act: Callable[[str], Awaitable[ServedModel]], settings: ServerSettings) -> None:
        self._act = act
        self._settings = settings

    async def on_post(self, request: Request, response: Response) -> None:
        """Act on the model that the body names.

        Raises UnknownModel, ModelUnavailable, ModelInUse and other CapacityErrors.
        """
        asked = await read_json(request, _CHOICES, limit_bytes=_MAX_BODY_BYTES)
        async with deadline_of(request, self._settings).limit():
            model = await self._act(asked.model)
        standing = ModelStatus(model=model.name, state=model.state, pinned=model.is_pinned)
        response.data = msgspec.json.encode(standing)
        response.content_type = falcon.MEDIA_JSON
