"""POST /models/load, /models/unload, /models/pin and /models/unpin: what stays in memory, decided by hand."""

import json
from collections.abc import Awaitable, Callable

import falcon
from falcon.asgi import Request, Response

from mlxctl.errors import InvalidRequest
from mlxctl.inference import ServedModel
from mlxctl.server.body import read_body

_MAX_BODY_BYTES = 64 * 1024


class ModelActionResource:
    """Does one thing with one model, and answers with how it is then. Who may generate may do this, too."""

    def __init__(self, act: Callable[[str], Awaitable[ServedModel]]) -> None:
        self._act = act

    async def on_post(self, request: Request, response: Response) -> None:
        """Act on the model that the body names. Raises UnknownModel, ModelUnavailable, ModelInUse and other CapacityErrors."""
        # SEC: a page in a browser may post plain text to any address without being asked; JSON needs its server's consent.
        if not (request.content_type or "").lower().startswith(falcon.MEDIA_JSON):
            raise InvalidRequest("content-type must be application/json")
        model = await self._act(_parse(await read_body(request, limit_bytes=_MAX_BODY_BYTES)))
        response.media = {"model": model.name, "state": model.state, "pinned": model.is_pinned}


def _parse(body: bytes) -> str:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidRequest("the body must be JSON") from None
    if not isinstance(value, dict) or not isinstance(value.get("model"), str):
        raise InvalidRequest('the body must be an object like {"model": "NAME"}', param="model")
    unknown = sorted(value.keys() - {"model"})
    if unknown:
        raise InvalidRequest(f"unknown field {unknown[0]!r}", param=unknown[0])
    return str(value["model"])
