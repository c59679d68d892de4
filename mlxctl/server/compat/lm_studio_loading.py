"""LM Studio's loading, unloading and downloading of models."""

import asyncio
import hashlib
import time
from datetime import UTC, datetime
from functools import partial

import msgspec
from falcon.asgi import Request, Response
from msgspec import UNSET, UnsetType

from mlxctl.inference import ServedModel
from mlxctl.inference.models.manager import Models
from mlxctl.ir.allowed_models import AllowedModels
from mlxctl.ir.errors import (
    DownloadFailed,
    FeatureDisabled,
    InvalidRequest,
    ModelNotFoundOnDisk,
    UnknownResource,
)
from mlxctl.library.catalog import Catalog
from mlxctl.library.download_journal import Download, DownloadState
from mlxctl.library.short_names import full_name
from mlxctl.protocols.compat.lm_studio.models import (
    DownloadStatus,
    LMStudioDownload,
    LMStudioDownloadRequest,
    LMStudioInstanceConfig,
    LMStudioLoaded,
    LMStudioLoadRequest,
    LMStudioUnload,
)
from mlxctl.server.http.answer import answer
from mlxctl.server.http.body import read_json
from mlxctl.server.policy.caller import allowed_models, call_of

_MAX_BODY_BYTES = 64 * 1024

_STATUSES: dict[DownloadState, DownloadStatus] = {
    "waiting": "downloading",
    "running": "downloading",
    "done": "completed",
    "failed": "failed",
    "cancelled": "failed",
}


_LOADS = msgspec.json.Decoder(LMStudioLoadRequest)
_UNLOADS = msgspec.json.Decoder(LMStudioUnload)
_DOWNLOADS = msgspec.json.Decoder(LMStudioDownloadRequest)


class LMStudioLoadResource:
    """POST /api/v1/models/load."""

    def __init__(self, manager: Models) -> None:
        self._manager = manager

    async def on_post(self, request: Request, response: Response) -> None:
        """Load a model. Raises UnknownModel, ModelUnavailable, InvalidRequest, CapacityError."""
        asked = await read_json(request, _LOADS, limit_bytes=_MAX_BODY_BYTES)
        started = time.monotonic()
        call = call_of(request)
        async with call.within_deadline():
            model = await self._manager.find(asked.model, call)
            _check_context(asked, model)
            model = await self._manager.load(asked.model, call)
        config = LMStudioInstanceConfig(model.context_length)
        loaded = LMStudioLoaded(
            type="embedding" if model.facts.purpose == "embeddings" else "llm",
            instance_id=asked.model,
            load_time_seconds=round(time.monotonic() - started, 3),
            load_config=config if asked.echo_load_config else UNSET,
        )
        answer(response, loaded)


class LMStudioUnloadResource:
    """POST /api/v1/models/unload."""

    def __init__(self, manager: Models) -> None:
        self._manager = manager

    async def on_post(self, request: Request, response: Response) -> None:
        """Unload a model. Raises UnknownModel, ModelInUse."""
        asked = await read_json(request, _UNLOADS, limit_bytes=_MAX_BODY_BYTES)
        call = call_of(request)
        async with call.within_deadline():
            await self._manager.unload(asked.instance_id, call)
        answer(response, asked)


class LMStudioDownloadResource:
    """POST /api/v1/models/download."""

    def __init__(self, catalog: Catalog, manager: Models) -> None:
        self._catalog = catalog
        self._manager = manager

    async def on_post(self, request: Request, response: Response) -> None:
        """Start a download, or report the running one.

        Raises InvalidRequest, PolicyDenied, QueueFull, and FeatureDisabled if the settings do not allow
        it.
        """
        if not self._catalog.allows_downloads:
            raise FeatureDisabled("POST /api/v1/models/download", "library.allow_downloads")
        asked = await read_json(request, _DOWNLOADS, limit_bytes=_MAX_BODY_BYTES)
        if asked.quantization is not None:
            raise InvalidRequest(
                "quantization is not supported: each MLX repository has one; name that repository",
                param="quantization",
            )
        repository = full_name(asked.model)
        allowed = allowed_models(request)
        if await asyncio.to_thread(self._is_downloaded, repository, allowed):
            answer(response, LMStudioDownload(status="already_downloaded"))
        else:
            answer(response, _described(self._start(repository, allowed)))

    def _start(self, repository: str, allowed: AllowedModels) -> Download:
        try:
            return self._catalog.downloads.start(repository, allowed)
        except DownloadFailed as error:
            raise InvalidRequest(str(error), param="model") from None

    def _is_downloaded(self, repository: str, allowed: AllowedModels) -> bool:
        is_allowed = partial(self._manager.is_library_model_allowed, allowed)
        try:
            return not self._catalog.find(repository, is_allowed).problem
        except ModelNotFoundOnDisk:
            return False


class LMStudioDownloadStatusResource:
    """GET /api/v1/models/download/status/{job_id}."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    async def on_get(self, request: Request, response: Response, job_id: str) -> None:
        """Report a download of this or another process. Raises UnknownResource."""
        downloads = await asyncio.to_thread(self._catalog.downloads.all, allowed_models(request))
        found = next((each for each in downloads if _job_id(each.repository) == job_id), None)
        if found is None:
            raise UnknownResource(f"there is no download {job_id[:128]!r}")
        answer(response, _described(found))


def _check_context(asked: LMStudioLoadRequest, model: ServedModel) -> None:
    if asked.context_length is not None and asked.context_length > model.context_length:
        raise InvalidRequest(
            f"context_length is {asked.context_length}; {asked.model!r} has {model.context_length} tokens",
            param="context_length",
        )


def _described(download: Download) -> LMStudioDownload:
    total, speed = download.num_bytes_total, download.bytes_per_second
    is_running = _STATUSES[download.state] == "downloading"
    seconds = (total - download.num_bytes) / speed if is_running and speed and total else None
    return LMStudioDownload(
        status=_STATUSES[download.state],
        job_id=_job_id(download.repository),
        total_size_bytes=UNSET if total is None else total,
        downloaded_bytes=download.num_bytes,
        bytes_per_second=speed if is_running else UNSET,
        estimated_completion=UNSET if seconds is None else _time(time.time() + seconds),
        started_at=_time(download.started_at),
        completed_at=_time(download.ended_at) if download.state == "done" else UNSET,
    )


def _job_id(repository: str) -> str:
    return f"job_{hashlib.sha256(repository.encode()).hexdigest()[:16]}"


def _time(seconds: float | None) -> str | UnsetType:
    return UNSET if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat()
