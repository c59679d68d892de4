"""Signing keys of an identity provider, from its JWKS document (RFC 7517)."""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey, RSAKey

from mlxctl.ir.errors import PolicyUnavailable
from mlxctl.ir.host_names import is_loopback
from mlxctl.server.policy.bounded_answer import fetch_bounded
from mlxctl.state.certificates import client_context

MAX_DOCUMENT_BYTES = 256 * 1024
MAX_KEYS = 100
REFETCH_SECONDS = 10.0
"""Shortest time between two fetches for keys that tokens name and the document lacks."""
_MAX_BACK_OFF_SECONDS = 60.0
# The modulus of 2,048 bits in base64url.
_MIN_MODULUS_CHARS = 342
# SEC: symmetric keys are left out. The document is public, so every reader could sign tokens with them.
_KEY_TYPES: dict[str, Any] = {"RSA": RSAKey, "EC": ECKey, "OKP": OKPKey}

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKey:
    """A public key of the provider.

    `algorithm` is the only one that it may be used with, None if the document does not say.
    """

    id: str | None
    algorithm: str | None
    key: Any


class JwksCache:
    """The signing keys of one provider. Event-loop thread only.

    `url` is that of the document; without it the provider's discovery document names it. Keys are fetched
    when a token first needs them, again after `ttl_seconds`, and when a token names an unknown key, but not
    more often than every 10 seconds. While the provider does not answer, the last keys are used for
    `stale_seconds` more, and fetches are repeated after 1, 2, 4 ... 60 seconds.
    """

    def __init__(
        self,
        issuer: str,
        url: str | None = None,
        *,
        ttl_seconds: float = 300.0,
        stale_seconds: float = 3600.0,
        timeout_seconds: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._issuer = issuer
        self._configured_url = self._url = url
        self._ttl_seconds = ttl_seconds
        self._stale_seconds = stale_seconds
        self._timeout_seconds = timeout_seconds
        self._clock = clock
        self._keys: Sequence[SigningKey] = ()
        self._fetched_at = self._retry_at = -math.inf
        self._num_failures = 0
        self._lock = asyncio.Lock()
        self._client: httpx.AsyncClient | None = None

    async def find(self, key_id: str | None, algorithm: str) -> SigningKey | None:
        """Return the key of a token.

        A token without a key id is signed with the only key of the document. Raises PolicyUnavailable
        without usable keys.
        """
        if not (self._lock.locked() and self._has_usable_keys):
            await self._refresh(self._ttl_seconds)
        if (found := self._match(key_id, algorithm)) is None:
            await self._refresh(REFETCH_SECONDS)
            found = self._match(key_id, algorithm)
        return found

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    def _match(self, key_id: str | None, algorithm: str) -> SigningKey | None:
        keys = self._keys if key_id is None else [key for key in self._keys if key.id == key_id]
        fitting = [key for key in keys if key.algorithm in (None, algorithm)]
        return fitting[0] if len(fitting) == 1 else None

    @property
    def _has_usable_keys(self) -> bool:
        return self._age < self._ttl_seconds + self._stale_seconds

    @property
    def _age(self) -> float:
        return self._clock() - self._fetched_at

    async def _refresh(self, max_age: float) -> None:
        """Fetch the keys unless they are newer than `max_age` seconds."""
        if self._age >= max_age:
            async with self._lock:
                # Another request may have fetched them meanwhile.
                if self._age >= max_age and self._clock() >= self._retry_at:
                    await self._try_fetch()
        if not self._has_usable_keys:
            raise PolicyUnavailable("the keys of the identity provider cannot be fetched; try again later")

    async def _try_fetch(self) -> None:
        try:
            async with asyncio.timeout(self._timeout_seconds):
                self._keys = await self._fetch()
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, ValueError, RecursionError) as error:
            if not self._num_failures:
                _log.error("the keys of the identity provider %s cannot be fetched: %r", self._issuer, error)
            self._url = self._configured_url
            self._retry_at = self._clock() + min(2.0**self._num_failures, _MAX_BACK_OFF_SECONDS)
            self._num_failures = min(self._num_failures + 1, 10)
        else:
            self._fetched_at = self._clock()
            self._num_failures = 0

    async def _fetch(self) -> Sequence[SigningKey]:
        if self._url is None:
            self._url = await self._discover()
        return signing_keys(await self._get(self._url))

    async def _discover(self) -> str:
        """Return the address of the keys (OpenID Connect Discovery 1.0, section 4)."""
        base = self._issuer.rstrip("/")
        try:
            document = msgspec.json.decode(await self._get(f"{base}/.well-known/openid-configuration"))
        except httpx.HTTPStatusError as error:
            if error.response.status_code != httpx.codes.NOT_FOUND:
                raise
            return f"{base}/.well-known/jwks.json"
        if not isinstance(document, dict) or document.get("issuer") != self._issuer:
            raise ValueError("the discovery document is of another issuer")
        return check_provider_url(str(document.get("jwks_uri")))

    async def _get(self, url: str) -> bytes:
        if self._client is None:
            # PERF: reading the trusted certificates takes tens of milliseconds.
            verify = await asyncio.to_thread(client_context, "https:")
            self._client = httpx.AsyncClient(verify=verify, trust_env=False, timeout=self._timeout_seconds)
        return await fetch_bounded(self._client, "GET", url, max_bytes=MAX_DOCUMENT_BYTES)


def check_provider_url(url: str) -> str:
    """Return the URL of a provider. Raises ValueError.

    SEC: another computer could replace keys that come over plain HTTP, so it is accepted on loopback only.
    """
    parts = urlsplit(url)
    if parts.scheme == "https" and parts.hostname:
        return url
    if parts.scheme == "http" and parts.hostname and is_loopback(parts.hostname):
        return url
    raise ValueError(f"{url!r} is not an https URL; http is accepted on loopback only")


def signing_keys(document: bytes) -> Sequence[SigningKey]:
    """Return the usable public keys of a document. Raises ValueError without any."""
    content = msgspec.json.decode(document)
    entries = content.get("keys") if isinstance(content, dict) else None
    if not isinstance(entries, list):
        raise ValueError("the document has no list 'keys'")  # noqa: TRY004 -- wrong content, not a wrong call
    keys = [key for entry in entries[:MAX_KEYS] if (key := _signing_key(entry)) is not None]
    if not keys:
        raise ValueError("the document has no usable signing key")
    return keys


def _signing_key(entry: Any) -> SigningKey | None:
    if not isinstance(entry, dict) or entry.get("use", "sig") != "sig":
        return None
    kind = _KEY_TYPES.get(str(entry.get("kty")))
    if kind is None or (kind is RSAKey and len(str(entry.get("n"))) < _MIN_MODULUS_CHARS):
        return None
    try:
        key = kind.import_key(entry)
    except (JoseError, ValueError, TypeError, KeyError):
        return None
    key_id, algorithm = entry.get("kid"), entry.get("alg")
    return SigningKey(
        id=key_id if isinstance(key_id, str) else None,
        algorithm=algorithm if isinstance(algorithm, str) else None,
        key=key,
    )
