"""/library, /fit and /downloads: the models on this machine."""

import asyncio

import falcon
import msgspec
from falcon.asgi import Request, Response
from msgspec import Struct

from mlxctl.errors import DownloadFailed, InvalidRequest, ModelNotFoundOnDisk, UnknownModel
from mlxctl.inference import InferenceService
from mlxctl.models import ModelDescription
from mlxctl.models.catalog import Catalog
from mlxctl.models.views import DownloadView, FitView, ModelView
from mlxctl.server.body import read_json

_MAX_BODY_BYTES = 64 * 1024
_MAX_CONTEXT_TOKENS = 1 << 27


class LibraryList(Struct):
    """All models on this machine, and the configured aliases."""

    models: list[ModelView]
    aliases: list[str]


class DownloadList(Struct):
    """Downloads of models, oldest first."""

    downloads: list[DownloadView]


class DownloadRequest(Struct, forbid_unknown_fields=True):
    """A Hub repository, ORGANIZATION/NAME."""

    repo: str


_REQUESTS = msgspec.json.Decoder(DownloadRequest)


class LibraryResource:
    """All models on this machine, served or not.

    Broken ones with the reason.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    async def on_get(self, request: Request, response: Response) -> None:  # noqa: ARG002
        response.data = msgspec.json.encode(await asyncio.to_thread(self._list))
        response.content_type = falcon.MEDIA_JSON

    on_head = on_get

    def _list(self) -> LibraryList:
        models = [
            ModelView.of(model, is_probed=self._catalog.is_probed(model)) for model in self._catalog.models()
        ]
        return LibraryList(models=models, aliases=sorted(self._catalog.library.aliases))


class FitResource:
    """Memory estimates of models."""

    def __init__(self, catalog: Catalog, inference: InferenceService) -> None:
        self._catalog = catalog
        self._inference = inference

    async def on_get(self, request: Request, response: Response) -> None:
        """Estimate for `model` and an optional `context` in tokens. Raises UnknownModel, InvalidRequest."""
        name, context = request.get_param("model"), request.get_param("context")
        if not name:
            raise InvalidRequest("model is missing; send /fit?model=NAME", param="model")
        if context is not None and not (
            context.isascii() and context.isdigit() and 1 <= int(context[:12]) <= _MAX_CONTEXT_TOKENS
        ):
            raise InvalidRequest(
                f"context must be a number of tokens from 1 to {_MAX_CONTEXT_TOKENS}", param="context"
            )
        fit = await asyncio.to_thread(self._fit, name, int(context) if context else None)
        response.data = msgspec.json.encode(fit)
        response.content_type = falcon.MEDIA_JSON

    on_head = on_get

    def _fit(self, name: str, context_tokens: int | None) -> FitView:
        model = self._find(name)
        fit = self._catalog.fit(model, context_tokens=context_tokens)
        if fit is None:
            return FitView(model=name, problem=model.problem or "its weights cannot be read")
        return FitView.of(name, fit, problem=model.problem)

    def _find(self, name: str) -> ModelDescription:
        for served in self._inference.models():
            if served.name == name:
                return self._catalog.described(name, served.facts.path)
        try:
            return self._catalog.find(name)
        except ModelNotFoundOnDisk:
            raise UnknownModel(name) from None


class DownloadsResource:
    """Downloads since the start of the server."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    async def on_get(self, request: Request, response: Response) -> None:  # noqa: ARG002
        """List downloads, oldest first."""
        found = self._catalog.downloads.all()
        response.data = msgspec.json.encode(
            DownloadList(downloads=[DownloadView.of(download) for download in found])
        )
        response.content_type = falcon.MEDIA_JSON

    on_head = on_get


class OpenDownloadsResource(DownloadsResource):
    """Downloads that clients may start, if the settings allow it."""

    async def on_post(self, request: Request, response: Response) -> None:
        """Start a download, or return the running one. Raises InvalidRequest, QueueFull."""
        asked = await read_json(request, _REQUESTS, limit_bytes=_MAX_BODY_BYTES)
        try:
            started = self._catalog.downloads.start(asked.repo)
        except DownloadFailed as error:
            raise InvalidRequest(str(error), param="repo") from None
        response.status = falcon.HTTP_202
        response.data = msgspec.json.encode(DownloadView.of(started))
        response.content_type = falcon.MEDIA_JSON
