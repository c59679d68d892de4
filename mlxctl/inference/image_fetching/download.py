"""One image or clip over HTTP: bounds on time, bytes and redirects."""

import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import httpcore

from mlxctl import __version__
from mlxctl.inference.image_fetching.address_rules import AddressRules
from mlxctl.inference.image_fetching.connections import AddressRefused, Resolve, connection_pool
from mlxctl.inference.image_fetching.url_rules import ImageUrl, UrlRefused, UrlRules
from mlxctl.ir.images import image_media_type

MAX_REDIRECTS = 3

_REDIRECTS = (301, 302, 303, 307, 308)
_OK = 200
# Headers and the sizes of parts.
_OVERHEAD_BYTES = 1 << 20
_MIN_PART_BYTES = 128
_MAX_SMALL_PARTS = 1000
# All signatures of images are within these.
_SNIFFED_BYTES = 64
# SEC: the same for an unknown name and one with a private address, so that it tells nothing about a network.
_UNREACHABLE = "the host cannot be reached, or its address is not a public one"


class NotDownloaded(Exception):
    """A download that failed.

    The text is the reason for the client, `detail` more of it for the log. `outcome` is its kind: `refused`
    by a rule, `failed` at the other server, `invalid` if what it sent cannot be used.
    """

    def __init__(self, outcome: str, reason: str, *, detail: str = "") -> None:
        super().__init__(reason)
        self.outcome = outcome
        self.detail = detail or reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageDownload:
    """Downloads files of at most `max_bytes` whose first bytes have a `media_type`.

    SEC: requests have no credentials, no cookies and no caller's headers, whatever the redirects.
    """

    urls: UrlRules
    addresses: AddressRules
    resolve: Resolve
    tls: ssl.SSLContext
    max_bytes: int
    timeout_seconds: float
    media_type: Callable[[bytes], str | None] = image_media_type

    async def get(self, url: ImageUrl, reserve: Callable[[int], None]) -> bytes:
        """Return the bytes of an image.

        `reserve` gets the number of bytes of each part that arrives, before it is kept. Raises NotDownloaded,
        and what `reserve` raises.
        """
        for _ in range(MAX_REDIRECTS + 1):
            answer = await self._answer(url, reserve)
            if isinstance(answer, bytes):
                return answer
            url = answer
        raise NotDownloaded("refused", f"there are more than {MAX_REDIRECTS} redirects")

    async def _answer(self, url: ImageUrl, reserve: Callable[[int], None]) -> bytes | ImageUrl:
        """Return the image, or the URL of a redirect."""
        address = httpcore.URL(
            scheme=url.scheme.encode(),
            host=url.host.encode(),
            port=url.port,
            target=url.target.encode(),
        )
        headers: Sequence[tuple[bytes | str, bytes | str]] = (
            ("Host", url.origin.partition("//")[2]),
            ("User-Agent", f"mlxctl/{__version__}"),
            ("Accept", "image/*" if self.media_type is image_media_type else "video/*, image/*"),
            ("Accept-Encoding", "identity"),
        )
        timeout = dict.fromkeys(("read", "write", "pool"), self.timeout_seconds)
        timeout["connect"] = self.timeout_seconds / 4
        try:
            async with (
                connection_pool(
                    self.addresses,
                    self.resolve,
                    self.tls,
                    max_bytes=self.max_bytes + _OVERHEAD_BYTES,
                ) as pool,
                pool.stream("GET", address, headers=headers, extensions={"timeout": timeout}) as response,
            ):
                if response.status in _REDIRECTS:
                    return self.urls.redirected(url, _header(response, b"location"))
                return await self._body(response, reserve)
        except UrlRefused as error:
            raise NotDownloaded("refused", str(error)) from None
        except AddressRefused:
            detail = "the host has an address that may not be fetched from"
            raise NotDownloaded("refused", _UNREACHABLE, detail=detail) from None
        except (httpcore.ConnectError, OSError) as error:
            reason = "TLS fails, or its certificate is not valid" if _is_of_tls(error) else _UNREACHABLE
            raise NotDownloaded("failed", reason, detail=str(error)) from None
        except httpcore.TimeoutException:
            raise NotDownloaded("failed", "the host does not answer in time") from None
        except (httpcore.NetworkError, httpcore.ProtocolError) as error:
            raise NotDownloaded(
                "failed", "the answer breaks off or is malformed", detail=str(error)
            ) from None

    async def _body(self, response: httpcore.Response, reserve: Callable[[int], None]) -> bytes:
        if response.status != _OK:
            raise NotDownloaded("failed", f"the answer has status {response.status}")
        if _header(response, b"content-encoding").lower() not in ("", "identity"):
            raise NotDownloaded("invalid", "the answer is compressed")
        self._check_size(_declared_size(response))
        body, num_small = bytearray(), 0
        async for part in response.aiter_stream():
            self._check_size(len(body) + len(part))
            num_small += len(part) < _MIN_PART_BYTES
            if num_small > _MAX_SMALL_PARTS:
                raise NotDownloaded("invalid", "the answer comes in too small parts")
            reserve(len(part))
            is_sniffed = len(body) >= _SNIFFED_BYTES
            body += part
            if not is_sniffed and len(body) >= _SNIFFED_BYTES:
                self._check_kind(body)
        self._check_kind(body)
        return bytes(body)

    def _check_kind(self, body: bytearray) -> None:
        if self.media_type(bytes(body[:_SNIFFED_BYTES])) is None:
            kind = "an image" if self.media_type is image_media_type else "a video"
            raise NotDownloaded("invalid", f"it is not {kind} of a known format")

    def _check_size(self, num_bytes: int) -> None:
        if num_bytes > self.max_bytes:
            raise NotDownloaded("invalid", f"it has more than {self.max_bytes} bytes")


def _is_of_tls(error: BaseException) -> bool:
    """Whether TLS is the reason of a network error."""
    cause = error.__cause__ or error.__context__
    return isinstance(error, ssl.SSLError) or (cause is not None and _is_of_tls(cause))


def _declared_size(response: httpcore.Response) -> int:
    """Return the size that the answer declares, 0 if it declares none."""
    text = _header(response, b"content-length")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0


def _header(response: httpcore.Response, wanted: bytes) -> str:
    """Return the first value of a header, empty if there is none."""
    found = (value for name, value in response.headers if name.lower() == wanted)
    return next(found, b"").decode("latin-1").strip()
