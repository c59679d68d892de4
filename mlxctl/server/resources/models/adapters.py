"""/v1/adapters, and vLLM's routes for LoRA adapters."""

import falcon
import msgspec
from falcon.asgi import Request, Response
from msgspec import Struct

from mlxctl.inference.models.lora_registry import ServedAdapter
from mlxctl.inference.models.manager import Models
from mlxctl.ir.errors import InvalidRequest
from mlxctl.server.http.answer import answer
from mlxctl.server.http.body import read_json
from mlxctl.server.policy.caller import allowed_models, call_of

_MAX_BODY_BYTES = 64 * 1024


class Adapter(Struct, kw_only=True):
    """A mounted LoRA adapter.

    `model` is its base, `mounted_layers` the number of adapted layers.
    """

    id: str
    model: str
    path: str
    format: str
    rank: int
    scale: float
    size_bytes: int
    mounted_layers: int


class AdapterList(Struct):
    """All LoRA adapters that are mounted."""

    adapters: list[Adapter]


class AdapterMount(Struct, kw_only=True, forbid_unknown_fields=True):
    """An adapter to mount.

    `path` is below a directory of `adapters.dirs`, or a name of the library; without `model` the base is the
    first model.
    """

    id: str
    path: str
    model: str | None = None


class LoraMount(Struct, kw_only=True):
    """An adapter to mount, in vLLM's format."""

    lora_name: str
    lora_path: str
    base_model_name: str | None = None


class LoraUnmount(Struct, kw_only=True):
    """An adapter to unmount, in vLLM's format."""

    lora_name: str


_MOUNTS = msgspec.json.Decoder(AdapterMount)
_LORA_MOUNTS = msgspec.json.Decoder(LoraMount)
_LORA_UNMOUNTS = msgspec.json.Decoder(LoraUnmount)


class _MountResource:
    """Mounts adapters; loads their model if necessary."""

    def __init__(self, models: Models) -> None:
        self._models = models

    async def _mount(self, request: Request, name: str, path: str, base: str | None) -> ServedAdapter:
        call = call_of(request)
        async with call.within_deadline():
            return await self._models.mount_adapter(name, path, base, call)


class AdaptersResource(_MountResource):
    """GET and POST /v1/adapters."""

    async def on_get(self, request: Request, response: Response) -> None:
        """List the mounted adapters."""
        adapters = [_view(each) for each in self._models.lora.adapters(allowed_models(request))]
        answer(response, AdapterList(adapters=adapters))

    async def on_post(self, request: Request, response: Response) -> None:
        """Mount an adapter. Raises InvalidRequest, Conflict, UnknownModel."""
        body = await read_json(request, _MOUNTS, limit_bytes=_MAX_BODY_BYTES)
        answer(response, _view(await self._mount(request, body.id, body.path, body.model)))


class AdapterResource:
    """DELETE /v1/adapters/{id}: unmounts an adapter."""

    def __init__(self, models: Models) -> None:
        self._models = models

    async def on_delete(self, request: Request, response: Response, name: str) -> None:
        """Unmount an adapter that no request uses. Raises UnknownResource, Conflict."""
        lora, model = self._models.lora, request.get_param("model")
        answer(response, _view(await lora.remove(name, model, allowed_models(request))))


class LoadLoraResource(_MountResource):
    """POST /v1/load_lora_adapter: mounts an adapter, as in vLLM."""

    async def on_post(self, request: Request, response: Response) -> None:
        """Mount an adapter. Raises as POST /v1/adapters."""
        body = await read_json(request, _LORA_MOUNTS, limit_bytes=_MAX_BODY_BYTES)
        await self._mount(request, body.lora_name, body.lora_path, body.base_model_name)
        response.text = f"Success: LoRA adapter '{body.lora_name}' added successfully."
        response.content_type = falcon.MEDIA_TEXT


class UnloadLoraResource:
    """POST /v1/unload_lora_adapter: unmounts an adapter, as in vLLM."""

    def __init__(self, models: Models) -> None:
        self._models = models

    async def on_post(self, request: Request, response: Response) -> None:
        """Unmount an adapter. Raises as DELETE /v1/adapters/{id}."""
        body = await read_json(request, _LORA_UNMOUNTS, limit_bytes=_MAX_BODY_BYTES)
        lora, allowed = self._models.lora, allowed_models(request)
        bases = {each.base for each in lora.adapters(allowed) if each.name == body.lora_name}
        if len(bases) > 1:
            raise InvalidRequest(
                f"several models have an adapter {body.lora_name!r}; "
                "use DELETE /v1/adapters/{id}?model=NAME",
                param="lora_name",
            )
        await lora.remove(body.lora_name, next(iter(bases), None), allowed)
        response.text = f"Success: LoRA adapter '{body.lora_name}' removed successfully."
        response.content_type = falcon.MEDIA_TEXT


def _view(adapter: ServedAdapter) -> Adapter:
    spec = adapter.spec
    return Adapter(
        id=spec.name,
        model=adapter.base,
        path=adapter.shown_path,
        format=spec.format,
        rank=spec.rank,
        scale=spec.scale,
        size_bytes=spec.num_bytes,
        mounted_layers=len(spec.modules),
    )
