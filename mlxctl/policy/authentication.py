"""API keys: compared by digest, in constant time, so that neither length nor content of a key leaks."""

import hashlib
import hmac
from collections.abc import Sequence

from mlxctl.errors import AuthenticationFailed


class KeyCheck:
    """Knows the accepted keys by their SHA-256 digests only. Without any key everybody is let in."""

    def __init__(self, api_keys: Sequence[str]) -> None:
        self._digests = tuple(_digest(key) for key in api_keys)

    @property
    def is_required(self) -> bool:
        """Whether a caller needs a key at all."""
        return bool(self._digests)

    def identify(self, *, authorization: str | None, x_api_key: str | None) -> str:
        """Return a name for the caller by either header's value: `Bearer KEY`, or the bare key; raises AuthenticationFailed.

        The name is the beginning of the key's digest, and empty when no key is needed.
        """
        if not self.is_required:
            return ""
        offered = [key for key in (x_api_key, _bearer(authorization)) if key]
        if not offered:
            raise AuthenticationFailed("an API key is needed: send 'Authorization: Bearer KEY' or 'x-api-key: KEY'")
        accepted = [_digest(key) for key in offered if self._accepts(key)]
        if not accepted:
            raise AuthenticationFailed("the API key is not accepted here")
        return accepted[0].hex()[:16]

    def _accepts(self, key: str) -> bool:
        # SEC: every digest is looked at, so the time taken does not tell which one matched.
        offered = _digest(key)
        return sum(hmac.compare_digest(offered, digest) for digest in self._digests) > 0


def _bearer(authorization: str | None) -> str | None:
    scheme, _, key = (authorization or "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else None


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
