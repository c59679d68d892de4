"""API keys: compared by digest, in constant time, so that neither length nor content of a key leaks."""

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass

from mlxctl.errors import AuthenticationFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who asks. `name` is the beginning of the key's digest, empty for a caller who needs no key and has none."""

    name: str
    may_administer: bool


class KeyCheck:
    """Knows the accepted keys by their SHA-256 digests only. Without any key everybody is let in.

    A caller with one of the `admin_keys` may administer; where there are none, so may everybody who is let in.
    """

    def __init__(self, api_keys: Sequence[str], admin_keys: Sequence[str] = ()) -> None:
        self._is_required = bool(api_keys)
        self._admins = tuple(_digest(key) for key in admin_keys)
        self._digests = (*(_digest(key) for key in api_keys), *self._admins)

    def identify(self, *, authorization: str | None, x_api_key: str | None) -> Caller:
        """Return the caller by either header's value: `Bearer KEY`, or the bare key; raises AuthenticationFailed."""
        offered = [_digest(key) for key in (x_api_key, _bearer(authorization)) if key]
        accepted = [digest for digest in offered if _is_among(digest, self._digests)]
        admins = [digest for digest in accepted if _is_among(digest, self._admins)]
        if self._is_required and not accepted:
            if offered:
                raise AuthenticationFailed("the API key is not accepted here")
            raise AuthenticationFailed("an API key is needed: send 'Authorization: Bearer KEY' or 'x-api-key: KEY'")
        name = next((digest.hex()[:16] for digest in (*admins, *accepted)), "")
        return Caller(name=name, may_administer=bool(admins) or not self._admins)


def _is_among(offered: bytes, digests: Sequence[bytes]) -> bool:
    # SEC: every digest is looked at, so the time taken does not tell which one matched.
    return sum(hmac.compare_digest(offered, digest) for digest in digests) > 0


def _bearer(authorization: str | None) -> str | None:
    scheme, _, key = (authorization or "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else None


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
