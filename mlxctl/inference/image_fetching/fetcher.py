"""Fetches the remote images and clips of a request. Event-loop thread only."""

import asyncio
import logging
import ssl
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from weakref import WeakValueDictionary

from mlxctl.formats.adapters.media.image_files import MAX_IMAGES
from mlxctl.inference.call_context import CallContext
from mlxctl.inference.image_fetching.address_rules import AddressRules, read_networks
from mlxctl.inference.image_fetching.connections import Resolve, Resolver
from mlxctl.inference.image_fetching.download import ImageDownload, NotDownloaded
from mlxctl.inference.image_fetching.url_rules import ImageUrl, UrlRefused, UrlRules, read_patterns
from mlxctl.inference.preparation import PackedRequest
from mlxctl.ir import ImagePart, RemoteImagePart, SeenPart
from mlxctl.ir.errors import InvalidRequest, UsageError
from mlxctl.ir.images import image_media_type, video_media_type
from mlxctl.ir.timed_phases import timed
from mlxctl.state.settings import VisionSettings

MAX_DOWNLOADS = 16
"""Number of images that are fetched at the same time."""

MAX_DOWNLOADS_PER_CALLER = 4

_CODE = "invalid_image_url"
_MAX_LOGGED_CHARS = 200

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class FetchTotals:
    """Counters of all downloads, `outcomes` by their kind."""

    outcomes: Counter[str] = field(default_factory=Counter)
    num_bytes: int = 0
    seconds: float = 0.0


class ImageFetcher:
    """Fetches images if the settings allow it.

    All images of a request may have `max_request_bytes` together.
    """

    def __init__(
        self,
        settings: VisionSettings,
        *,
        max_request_bytes: int,
        resolve: Resolve | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Raises UsageError for hosts and networks that cannot be read."""
        self._settings = settings
        self._max_request_bytes = max_request_bytes
        try:
            self._urls = UrlRules(read_patterns(settings.fetch_hosts), settings.fetch_http)
        except ValueError as error:
            raise UsageError(f"vision.fetch_hosts: {error}") from None
        try:
            self._addresses = AddressRules(read_networks(settings.fetch_networks))
        except ValueError as error:
            raise UsageError(f"vision.fetch_networks: {error}") from None
        self._resolver = Resolver()
        self._resolve = resolve or self._resolver.resolve
        self._tls = tls
        self._places = asyncio.Semaphore(MAX_DOWNLOADS)
        self._callers: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self.totals = FetchTotals()

    def close(self) -> None:
        """End the threads of the resolver. Idempotent."""
        self._resolver.close()

    async def fetch(self, request: PackedRequest, call: CallContext) -> PackedRequest:
        """Return the request with its remote images. Raises InvalidRequest, CapacityError."""
        if not request.remote_images:
            return request
        # Of equal parts the first; it names the place.
        first = {part: part for part in reversed(request.remote_images)}.values()
        self._check_allowed(request.remote_images[0], num_images=len(first))
        urls = {part: self._checked(part) for part in first}
        download, reserve = await self._download(), self._reserve(call)
        caller = self._callers.setdefault(call.fairness_key, asyncio.Semaphore(MAX_DOWNLOADS_PER_CALLER))
        try:
            with timed("fetch_images"):
                async with asyncio.TaskGroup() as group:
                    tasks = {
                        part: group.create_task(self._fetch_one(download, url, reserve, caller, part))
                        for part, url in urls.items()
                    }
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return request.with_fetched({part: task.result() for part, task in tasks.items()})

    def _check_allowed(self, part: RemoteImagePart, *, num_images: int) -> None:
        if not self._settings.fetch_urls:
            raise InvalidRequest(
                f"{part.param}: remote {'videos' if part.video else 'images'} are not fetched, because the "
                "server runs without --fetch-images (setting vision.fetch_urls); send a data URL, or the "
                "bytes",
                param=part.param,
                code=_CODE,
            )
        if num_images > MAX_IMAGES:
            raise InvalidRequest(
                f"there are {num_images} remote images; a request may have {MAX_IMAGES} images",
                param=part.param,
            )

    def _checked(self, part: RemoteImagePart) -> ImageUrl:
        try:
            return self._urls.check(part.url)
        except UrlRefused as error:
            self.totals.outcomes["refused"] += 1
            _log.info("an image is not fetched: %s", str(error)[:_MAX_LOGGED_CHARS])
            raise InvalidRequest(
                f"{part.param} cannot be fetched: {error}", param=part.param, code=_CODE
            ) from None

    async def _download(self) -> ImageDownload:
        if self._tls is None:
            # Without the client certificate of `certificates`, which is for servers of the operator.
            self._tls = await asyncio.to_thread(_tls_context)
        return ImageDownload(
            urls=self._urls,
            addresses=self._addresses,
            resolve=self._resolve,
            tls=self._tls,
            max_bytes=self._settings.fetch_max_bytes,
            timeout_seconds=self._settings.fetch_timeout_seconds,
        )

    def _reserve(self, call: CallContext) -> Callable[[int], None]:
        """Return a function that counts the bytes of a request's images.

        They count as its body, too.
        """
        num_bytes = 0

        def reserve(number: int) -> None:
            nonlocal num_bytes
            num_bytes += number
            if num_bytes > self._max_request_bytes:
                raise NotDownloaded(
                    "invalid", f"the images of the request have more than {self._max_request_bytes} bytes"
                )
            if call.reserve is not None:
                call.reserve(number)

        return reserve

    async def _fetch_one(
        self,
        download: ImageDownload,
        url: ImageUrl,
        reserve: Callable[[int], None],
        caller: asyncio.Semaphore,
        part: RemoteImagePart,
    ) -> SeenPart:
        param = part.param
        async with caller, self._places:
            started, outcome, note = time.monotonic(), "cancelled", ""
            try:
                kind = image_media_type if part.video is None else video_media_type
                data = await self._in_time(replace(download, media_type=kind), url, reserve)
                outcome, note = "fetched", f"{len(data)} bytes"
                self.totals.num_bytes += len(data)
            except NotDownloaded as error:
                outcome, note = error.outcome, error.detail
                raise InvalidRequest(
                    f"{param} cannot be fetched from {url.origin}: {error}", param=param, code=_CODE
                ) from None
            finally:
                seconds = time.monotonic() - started
                self.totals.outcomes[outcome] += 1
                self.totals.seconds += seconds
                _log.info(
                    "image %s: %s in %.3f s %s",
                    url.logged[:_MAX_LOGGED_CHARS],
                    outcome,
                    seconds,
                    note[:_MAX_LOGGED_CHARS],
                )
        if part.video is not None:
            return replace(part.video, files=(data,), param=param)
        return ImagePart(data=data, media_type=image_media_type(data) or "image/png", param=param)

    async def _in_time(self, download: ImageDownload, url: ImageUrl, reserve: Callable[[int], None]) -> bytes:
        seconds = self._settings.fetch_timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                return await download.get(url, reserve)
        except TimeoutError:
            raise NotDownloaded("failed", f"it takes longer than {seconds:g} seconds") from None


def _tls_context() -> ssl.SSLContext:
    import httpx

    return httpx.create_ssl_context(trust_env=True)
