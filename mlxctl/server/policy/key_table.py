"""API keys by digest, looked up in constant time."""

import hashlib
import hmac
from collections.abc import Iterable

from mlxctl.ir.policy import ApiKey

_PREFIX_CHARS = 8


class KeyTable:
    """Keys by the SHA-256 of their secret."""

    def __init__(self, keys: Iterable[ApiKey]) -> None:
        self.keys = tuple(keys)
        self._by_prefix: dict[str, list[ApiKey]] = {}
        for key in self.keys:
            self._by_prefix.setdefault(key.sha256[:_PREFIX_CHARS], []).append(key)

    def find(self, sha256: str) -> ApiKey | None:
        """Return the key with this digest.

        SEC: the start of a digest says nothing about the secret; the whole digest is compared in constant
        time.
        """
        found = None
        for key in self._by_prefix.get(sha256[:_PREFIX_CHARS], ()):
            if hmac.compare_digest(key.sha256, sha256):
                found = key
        return found


def secret_digest(secret: str) -> str:
    """Return the hex SHA-256 of a key's secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
