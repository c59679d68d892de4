"""/library, /fit and /downloads: the models on this machine."""

import asyncio
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import falcon
import msgspec
from falcon.asgi import Request, Response
from msgspec import Struct

from mlxctl.inference import ServedModel
from mlxctl.inference.models.manager import Models
from mlxctl.ir.allowed_models import AllowedModels
from mlxctl.ir.errors import (
    Conflict,
    DownloadFailed,
    FeatureDisabled,
    InvalidRequest,
    ModelNotFoundOnDisk,
    UnknownModel,
    UnknownResource,
)
from mlxctl.ir.models import ModelState
from mlxctl.library import ModelDescription
from mlxctl.library.catalog import Catalog
from mlxctl.library.download_journal import Download
from mlxctl.library.short_names import full_name
from mlxctl.library.views import Assessment, DownloadView, FitView, ModelView
from mlxctl.server.http.answer import answer
from mlxctl.server.http.body import read_json
from mlxctl.server.policy.caller import allowed_models

_MAX_BODY_BYTES = 64 * 1024
_MAX_CONTEXT_TOKENS = 1 << 27
_MATRIX_CONTEXT_TOKENS = 32_768


class LibraryModel(ModelView, frozen=True, kw_only=True):
    """A model of the library, and its use by this server.

    `serving` is the name under which requests can use it, `state` its state then. `repo_id`, `size_bytes` and
    `quant_bits` are other names of `name`, `disk_bytes` and `bits`.
    """

    repo_id: str

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
    """A model to download; `probe`: probe it afterwards.

    `repo` is ORGANIZATION/NAME on the hub, the address of its page, or a short name such as `qwen3:4b`.
    """

    repo: str
    probe: bool = False


_REQUESTS = msgspec.json.Decoder(DownloadRequest)


class LibraryResource:
    """All models on this machine.

    Served or not; broken ones with the reason.
    `?refresh=1` reads the disk again.
    """

    def __init__(self, catalog: Catalog, models: Models) -> None:
        self._catalog = catalog
        self._models = models
        self._lock = asyncio.Lock()

    async def on_get(self, request: Request, response: Response) -> None:
        needs_refresh = request.get_param("refresh") not in (None, "", "0", "false")
        manager, allowed = self._models, allowed_models(request)
        async with self._lock:
            listed = await asyncio.to_thread(
                self._catalog.listed,
                partial(manager.is_library_model_allowed, allowed),
                needs_refresh=needs_refresh,
            )
        served = _by_directory(self._models.served(allowed))
        models = [
            LibraryModel(
                **msgspec.structs.asdict(view),
                repo_id=view.name,
                size_bytes=view.disk_bytes,
                quant_bits=view.bits,
                serving=served[path].name if path in served else None,
                state=served[path].state if path in served else None,
                assessment=assessment,
            )
            for path, view, assessment in listed
        ]
        # Each alias is a name of a served model, or of one that cannot be served.
        names = {model.name for model in self._models.served(allowed)}
        names |= {model.name for model in manager.unusable(allowed)}
        aliases = sorted(names.intersection(self._catalog.library.aliases))
        answer(response, LibraryList(models=models, aliases=aliases))


class FitResource:
    """Memory estimates of models."""

    def __init__(self, catalog: Catalog, models: Models) -> None:
        self._catalog = catalog
        self._models = models

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
        allowed = allowed_models(request)
        fit: FitView | FitList
        if name:
            fit = await asyncio.to_thread(self._fit, name, allowed, num_tokens, has_matrix=has_matrix)
        else:
            loaded = _by_directory(model for model in self._models.served(allowed) if model.memory)
            fits = [
                await asyncio.to_thread(self._fit, each.name, allowed, num_tokens, has_matrix=has_matrix)
                for each in loaded.values()
            ]
            fit = FitList(fits=fits)
        answer(response, fit)

    def _fit(
        self, name: str, allowed: AllowedModels, context_tokens: int | None, *, has_matrix: bool
    ) -> FitView:
        model = self._find(name, allowed)
        fit = self._catalog.fit(model, context_tokens=context_tokens)
        if fit is None:
            return FitView(model=name, problem=model.problem or "its weights cannot be read")
        macs = (
            self._catalog.fit_on_macs(model, context_tokens=context_tokens or _MATRIX_CONTEXT_TOKENS)
            if has_matrix
            else None
        )
        return FitView.named(name, fit, problem=model.problem, macs=macs)

    def _find(self, name: str, allowed: AllowedModels) -> ModelDescription:
        models = self._models.served(allowed)
        for served in models:
            if served.name == name:
                return self._catalog.described(name, served.facts.path)
        try:
            return self._catalog.find(name, partial(self._models.is_library_model_allowed, allowed))
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

    async def on_get(self, request: Request, response: Response) -> None:
        """List downloads, oldest first."""
        found = await asyncio.to_thread(self._catalog.downloads.all, allowed_models(request))
        answer(response, DownloadList(downloads=[DownloadView.of(download) for download in found]))

    async def on_post(self, request: Request, response: Response) -> None:
        """Start a download, or return the running one.

        Raises InvalidRequest, PolicyDenied, QueueFull, and FeatureDisabled if the settings do not allow
        it.
        """
        if not self._catalog.allows_downloads:
            raise FeatureDisabled("POST /downloads", "library.allow_downloads")
        body = await read_json(request, _REQUESTS, limit_bytes=_MAX_BODY_BYTES)
        try:
            started = self._catalog.downloads.start(
                full_name(body.repo), allowed_models(request), is_probed=body.probe
            )
        except DownloadFailed as error:
            raise InvalidRequest(str(error), param="repo") from None
        response.status = falcon.HTTP_202
        answer(response, DownloadView.of(started))


class DownloadResource:
    """One download, by its repository."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    async def on_delete(self, request: Request, response: Response, repository: str) -> None:
        """Cancel the download or its probe, or forget one that has ended.

        Complete files are kept. Raises UnknownResource, Conflict.
        """
        found = await asyncio.to_thread(self._remove, repository, allowed_models(request))
        answer(response, DownloadView.of(found))

    def _remove(self, repository: str, allowed: AllowedModels) -> Download:
        downloads = self._catalog.downloads
        cancelled = downloads.cancel(repository, allowed)
        if cancelled is not None:
            return cancelled
        found = next((each for each in downloads.all(allowed) if each.repository == repository), None)
        if found is None:
            raise UnknownResource(f"there is no download of {repository[:128]!r}")
        if not found.is_over:
            raise Conflict(
                f"process {found.pid} downloads {repository!r}, not this server; stop that process"
            )
        downloads.forget(repository, allowed)
        return found
