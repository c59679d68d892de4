"""GET /library, /fit and /downloads, POST /downloads: the models on this machine, for people and tools that manage them.

Paths of this machine are not told: who may ask for a model need not know where it lies.
"""

import asyncio
import json
from typing import Any

import falcon
from falcon.asgi import Request, Response

from mlxctl.errors import DownloadFailed, InvalidRequest, ModelNotFoundOnDisk, UnknownModel
from mlxctl.inference import InferenceService
from mlxctl.models import ModelDescription
from mlxctl.models.catalogue import Catalogue
from mlxctl.models.views import download_view, fit_view, model_view
from mlxctl.server.body import read_body

_MAX_BODY_BYTES = 64 * 1024
_MAX_CONTEXT_TOKENS = 1 << 27


class LibraryResource:
    """Every model that lies here, served or not, broken ones with their reason."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    async def on_get(self, request: Request, response: Response) -> None:  # noqa: ARG002
        """List the library as it is now."""
        models = await asyncio.to_thread(self._catalogue.models)
        response.media = {
            "models": [_without_path(model_view(model)) for model in models],
            "aliases": sorted(self._catalogue.library.aliases),
        }

    on_head = on_get


class FitResource:
    """Whether a model would fit this machine."""

    def __init__(self, catalogue: Catalogue, inference: InferenceService) -> None:
        self._catalogue = catalogue
        self._inference = inference

    async def on_get(self, request: Request, response: Response) -> None:
        """Answer for `model` and, if given, `context` in tokens; raises UnknownModel, InvalidRequest."""
        name, context = request.get_param("model"), request.get_param("context")
        if not name:
            raise InvalidRequest("say which model: /fit?model=NAME", param="model")
        if context is not None and not (context.isascii() and context.isdigit() and 1 <= int(context[:12]) <= _MAX_CONTEXT_TOKENS):
            raise InvalidRequest(f"context must be a number of tokens from 1 to {_MAX_CONTEXT_TOKENS}", param="context")
        response.media = await asyncio.to_thread(self._fit, name, int(context) if context else None)

    on_head = on_get

    def _fit(self, name: str, context_tokens: int | None) -> dict[str, Any]:
        model = self._find(name)
        fit = self._catalogue.fit(model, context_tokens=context_tokens)
        if fit is None:
            return {"model": name, "fits": None, "problem": model.problem or "its weights cannot be read"}
        return {**fit_view(name, fit), "problem": model.problem}

    def _find(self, name: str) -> ModelDescription:
        for served in self._inference.served_models():
            if served.name == name:
                return self._catalogue.described(name, served.facts.path)
        try:
            return self._catalogue.find(name)
        except ModelNotFoundOnDisk:
            raise UnknownModel(name) from None


class DownloadsResource:
    """The downloads of this server since it started."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    async def on_get(self, request: Request, response: Response) -> None:  # noqa: ARG002
        """List them, oldest first."""
        found = self._catalogue.downloads.all()
        response.media = {"downloads": [_without_path(download_view(download)) for download in found]}

    on_head = on_get


class OpenDownloadsResource(DownloadsResource):
    """Downloads that clients may start: mounted only where the settings allow it."""

    async def on_post(self, request: Request, response: Response) -> None:
        """Start one, or return the one that runs; raises InvalidRequest, QueueFull."""
        # SEC: a page in a browser may post plain text to any address without being asked; JSON needs its server's consent.
        if not (request.content_type or "").lower().startswith(falcon.MEDIA_JSON):
            raise InvalidRequest("content-type must be application/json")
        repository = _parse_download(await read_body(request, limit_bytes=_MAX_BODY_BYTES))
        try:
            started = self._catalogue.downloads.start(repository)
        except DownloadFailed as error:
            raise InvalidRequest(str(error), param="repo") from None
        response.status = falcon.HTTP_202
        response.media = _without_path(download_view(started))


def _parse_download(body: bytes) -> str:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidRequest("the body must be JSON") from None
    if not isinstance(value, dict) or not isinstance(value.get("repo"), str):
        raise InvalidRequest('the body must be an object like {"repo": "ORGANISATION/NAME"}', param="repo")
    unknown = sorted(value.keys() - {"repo"})
    if unknown:
        raise InvalidRequest(f"unknown field {unknown[0]!r}", param=unknown[0])
    return str(value["repo"])


def _without_path(view: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in view.items() if key != "path"}
