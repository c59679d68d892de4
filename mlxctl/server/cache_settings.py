"""GET and PATCH /admin/cache: live settings of the prefix cache."""

from typing import Annotated

import falcon
import msgspec
from falcon.asgi import Request, Response
from msgspec import UNSET, Meta, Struct, UnsetType

from mlxctl.errors import InvalidRequest
from mlxctl.inference import InferenceService
from mlxctl.server.body import read_json

_MAX_BODY_BYTES = 64 * 1024


class CacheSettingsState(Struct, kw_only=True):
    """The settings in force, until the restart of the server.

    `prefix_cache_bytes` is null until the engine has started, if the settings leave it to the engine.
    """

    prefix_cache_bytes: int | None
    cache_ttl_seconds: float | None
    cache_disk_ttl_seconds: float


class CacheSettingsChange(Struct, kw_only=True, forbid_unknown_fields=True):
    """Settings to change; the others stay.

    A smaller `prefix_cache_bytes` evicts entries at once. Times to live hold for entries that are stored or
    used from then on.
    """

    prefix_cache_bytes: Annotated[int, Meta(ge=1)] | UnsetType = UNSET
    cache_ttl_seconds: Annotated[float, Meta(ge=0)] | UnsetType | None = UNSET
    cache_disk_ttl_seconds: Annotated[float, Meta(ge=0)] | UnsetType = UNSET


_CHANGES = msgspec.json.Decoder(CacheSettingsChange)


class CacheSettingsResource:
    """GET and PATCH /admin/cache."""

    def __init__(self, inference: InferenceService) -> None:
        self._inference = inference

    async def on_get(self, request: Request, response: Response) -> None:  # noqa: ARG002
        """Return the settings in force."""
        self._answer(response)

    on_head = on_get

    async def on_patch(self, request: Request, response: Response) -> None:
        """Change settings. Raises InvalidRequest, also when nothing is named."""
        change = await read_json(request, _CHANGES, limit_bytes=_MAX_BODY_BYTES)
        values = {name: value for name, value in msgspec.structs.asdict(change).items() if value is not UNSET}
        if not values:
            names = ", ".join(CacheSettingsChange.__struct_fields__)
            raise InvalidRequest(f"name a setting to change: {names}")
        self._check_fits(values.get("prefix_cache_bytes", 0))
        cache = self._inference.cache
        cache.configure(msgspec.structs.replace(cache.policy, **values))
        self._answer(response)

    def _check_fits(self, num_bytes: int) -> None:
        engine = self._inference.engine
        if engine is not None and num_bytes > engine.memory_limit_bytes:
            raise InvalidRequest(
                f"prefix_cache_bytes is {num_bytes}, more than the memory limit of "
                f"{engine.memory_limit_bytes} bytes",
                param="prefix_cache_bytes",
            )

    def _answer(self, response: Response) -> None:
        cache = self._inference.cache
        policy = msgspec.structs.replace(cache.policy, prefix_cache_bytes=cache.max_bytes)
        response.data = msgspec.json.encode(CacheSettingsState(**msgspec.structs.asdict(policy)))
        response.content_type = falcon.MEDIA_JSON
