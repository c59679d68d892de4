"""Settings that GET shows and PATCH changes while the server runs."""

from abc import ABC, abstractmethod
from typing import Any

import msgspec
from falcon.asgi import Request, Response
from msgspec import UNSET, Struct

from mlxctl.inference import InferenceService
from mlxctl.ir.errors import InvalidRequest
from mlxctl.server.http.answer import answer
from mlxctl.server.http.body import read_json
from mlxctl.state.settings.bounds import MAX_INTEGER

_MAX_BODY_BYTES = 64 * 1024


class LiveSettingsResource(ABC):
    """Settings of one part of the server, in force until its restart."""

    def __init__(self, inference: InferenceService, change: type[Struct]) -> None:
        """`change` has the settings that a PATCH may name, UNSET by default."""
        self._inference = inference
        self._names = change.__struct_fields__
        self._decoder = msgspec.json.Decoder(change)

    @abstractmethod
    def state(self) -> Struct:
        """Return the settings in force."""

    @abstractmethod
    def change(self, values: dict[str, Any]) -> None:
        """Change the named settings; the others stay. Raises InvalidRequest."""

    async def on_get(self, request: Request, response: Response) -> None:  # noqa: ARG002
        """Return the settings in force."""
        answer(response, self.state())

    async def on_patch(self, request: Request, response: Response) -> None:
        """Change settings. Raises InvalidRequest, also if no setting is named."""
        change = await read_json(request, self._decoder, limit_bytes=_MAX_BODY_BYTES)
        values = {name: value for name, value in msgspec.structs.asdict(change).items() if value is not UNSET}
        if not values:
            raise InvalidRequest(f"name a setting to change: {', '.join(self._names)}")
        for name, value in values.items():
            if isinstance(value, int) and value > MAX_INTEGER:
                raise InvalidRequest(f"{name}: expected at most {MAX_INTEGER}", param=name)
        self.change(values)
        answer(response, self.state())
