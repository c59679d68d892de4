"""/library, /fit and /downloads: the models on this machine."""

import asyncio
import math
import time
from collections.abc import Iterable
from pathlib import Path

import falcon
import msgspec
from falcon.asgi import Request, Response
from msgspec import Struct

from mlxctl.errors import (
    Conflict,
    DownloadFailed,
    FeatureDisabled,
    InvalidRequest,
    ModelNotFoundOnDisk,
    UnknownModel,
    UnknownResource,
)
from mlxctl.inference import InferenceService, ServedModel
from mlxctl.ir.models import ModelState
from mlxctl.models import ModelDescription
from mlxctl.models.catalog import Catalog
from mlxctl.models.download_journal import Download
from mlxctl.models.views import Assessment, DownloadView, FitView, ModelView
from mlxctl.server.body import read_json

_MAX_BODY_BYTES = 64 * 1024
_MAX_CONTEXT_TOKENS = 1 << 27
_MATRIX_CONTEXT_TOKENS = 32_768
_LIBRARY_SECONDS = 30.0


class LibraryModel(ModelView, frozen=True, kw_only=True):
    """A model of the library, and its use by this server.

    `serving` is the name under which requests can use it, `state` its state then. `size_bytes` and
    `quant_bits` are other names of `disk_bytes` and `bits`.
    """

    size_bytes: int
    quant_bits: int | None
    serving: str | None
    state: ModelState | None
    assessment: Assessment | None


class LibraryList(Struct):
    """All models on this machine, and the configured aliases."""

    models: list[LibraryModel]
    aliases: list[str]


class FitList(Struct):
    """The fits of the loaded models."""

    fits: list[FitView]


class DownloadList(Struct):
    """Downloads of models, oldest first."""

    downloads: list[DownloadView]


class DownloadRequest(Struct, forbid_unknown_fields=True):
    """A Hub repository, ORGANIZATION/NAME; `probe`: probe the model afterwards."""

    repo: str
    probe: bool = False


_REQUESTS = msgspec.json.Decoder(DownloadRequest)


class LibraryResource:
    """All models on this machine.

    Served or not; broken ones with the reason.
    The disk is read at most once in 30 seconds; `?refresh=1` reads it again.
    """

    def __init__(self, catalog: Catalog, inference: InferenceService) -> None:
        self._catalog = catalog
        self._inference = inference
        self._lock = asyncio.Lock()
        self._read_at = -math.inf
        self._models: list[tuple[Path, ModelView, Assessment | None]] = []

    async def on_get(self, request: Request, response: Response) -> None:
        needs_refresh = request.get_param("refresh") not in (None, "", "0", "false")
        async with self._lock:
            await asyncio.to_thread(self._update, needs_refresh=needs_refresh)
        served = _by_directory(self._inference.models())
        models = [
            LibraryModel(
                **msgspec.structs.asdict(view),
                size_bytes=view.disk_bytes,
                quant_bits=view.bits,
                serving=served[path].name if path in served else None,
                state=served[path].state if path in served else None,
                assessment=assessment,
            )
            for path, view, assessment in self._models
        ]
        aliases = sorted(self._catalog.library.aliases)
        response.data = msgspec.json.encode(LibraryList(models=models, aliases=aliases))
        response.content_type = falcon.MEDIA_JSON

    on_head = on_get

    def _update(self, *, needs_refresh: bool) -> None:
        if needs_refresh or self._is_outdated():
            self._read_at = time.time()
            self._models = self._read()

    def _is_outdated(self) -> bool:
        age = time.time() - self._read_at
        ends = (download.ended_at or 0.0 for download in self._catalog.downloads.all())
        return not 0 <= age < _LIBRARY_SECONDS or max(ends, default=0.0) >= self._read_at

    def _read(self) -> list[tuple[Path, ModelView, Assessment | None]]:
        found = []
        for model in self._catalog.models():
            fit = None if model.problem else self._catalog.fit(model, context_tokens=None)
            view = ModelView.of(model, is_probed=self._catalog.is_probed(model))
            found.append((model.path, view, Assessment.of(fit) if fit else None))
        return found


class FitResource:
    """Memory estimates of models."""

    def __init__(self, catalog: Catalog, inference: InferenceService) -> None:
        self._catalog = catalog
        self._inference = inference

    async def on_get(self, request: Request, response: Response) -> None:
        """Estimate for `model` or the loaded models.

        `context` is in tokens.
        Raises UnknownModel, InvalidRequest.
        """
        name, context = request.get_param("model"), request.get_param("context")
        if context is not None and not (
            context.isascii() and context.isdigit() and 1 <= int(context[:12]) <= _MAX_CONTEXT_TOKENS
        ):
            raise InvalidRequest(
                f"context must be a number of tokens from 1 to {_MAX_CONTEXT_TOKENS}", param="context"
            )
        num_tokens = int(context) if context else None
        has_matrix = request.get_param("sku_matrix") not in (None, "", "0", "false")
        fit: FitView | FitList
        if name:
            fit = await asyncio.to_thread(self._fit, name, num_tokens, has_matrix=has_matrix)
        else:
            loaded = _by_directory(model for model in self._inference.models() if model.memory)
            fits = [
                await asyncio.to_thread(self._fit, each.name, num_tokens, has_matrix=has_matrix)
                for each in loaded.values()
            ]
            fit = FitList(fits=fits)
        response.data = msgspec.json.encode(fit)
        response.content_type = falcon.MEDIA_JSON

    on_head = on_get

    def _fit(self, name: str, context_tokens: int | None, *, has_matrix: bool) -> FitView:
        model = self._find(name)
        fit = self._catalog.fit(model, context_tokens=context_tokens)
        if fit is None:
            return FitView(model=name, problem=model.problem or "its weights cannot be read")
        macs = (
            self._catalog.fit_on_macs(model, context_tokens=context_tokens or _MATRIX_CONTEXT_TOKENS)
            if has_matrix
            else None
        )
        return FitView.of(name, fit, problem=model.problem, macs=macs)

    def _find(self, name: str) -> ModelDescription:
        models = self._inference.models()
        for served in models:
            if served.name == name:
                return self._catalog.described(name, served.facts.path)
        try:
            return self._catalog.find(name)
        except ModelNotFoundOnDisk:
            raise UnknownModel(name, tuple(model.name for model in models)) from None


def _by_directory(models: Iterable[ServedModel]) -> dict[Path, ServedModel]:
    """Return each model once, under the first of its names."""
    found: dict[Path, ServedModel] = {}
    for model in models:
        found.setdefault(model.facts.path, model)
    return found


class DownloadsResource:
    """Downloads of this server and of other processes into the same directory."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    async def on_get(self, request: Request, response: Response) -> None:  # noqa: ARG002
        """List downloads, oldest first."""
        found = await asyncio.to_thread(self._catalog.downloads.all)
        response.data = msgspec.json.encode(
            DownloadList(downloads=[DownloadView.of(download) for download in found])
        )
        response.content_type = falcon.MEDIA_JSON

    on_head = on_get

    async def on_post(self, request: Request, response: Response) -> None:
        """Start a download, or return the running one.

        Raises InvalidRequest, QueueFull, and FeatureDisabled if the settings do not allow it.
        """
        if not self._catalog.allows_downloads:
            raise FeatureDisabled("POST /downloads", "library.allow_downloads")
        body = await read_json(request, _REQUESTS, limit_bytes=_MAX_BODY_BYTES)
        try:
            started = self._catalog.downloads.start(body.repo, is_probed=body.probe)
        except DownloadFailed as error:
            raise InvalidRequest(str(error), param="repo") from None
        response.status = falcon.HTTP_202
        response.data = msgspec.json.encode(DownloadView.of(started))
        response.content_type = falcon.MEDIA_JSON


class DownloadResource:
    """One download, by its repository."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    async def on_delete(self, request: Request, response: Response, repository: str) -> None:  # noqa: ARG002
        """Cancel the download or its probe. Raises UnknownResource, Conflict, FeatureDisabled.

        Complete files are kept.
        """
        if not self._catalog.allows_downloads:
            raise FeatureDisabled("DELETE /downloads", "library.allow_downloads")
        found = await asyncio.to_thread(self._cancel, repository)
        response.data = msgspec.json.encode(DownloadView.of(found))
        response.content_type = falcon.MEDIA_JSON

    def _cancel(self, repository: str) -> Download:
        downloads = self._catalog.downloads
        found = downloads.cancel(repository)
        if found is not None:
            return found
        other = next((each for each in downloads.all() if each.repository == repository), None)
        if other is None:
            raise UnknownResource(f"there is no download of {repository[:128]!r}")
        if not other.is_over:
            raise Conflict(
                f"process {other.pid} downloads {repository!r}, not this server; stop that process"
            )
        return other
