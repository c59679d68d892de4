"""API keys, compared by digest in constant time."""

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlxctl.errors import AuthenticationFailed, SettingsError
from mlxctl.policy.cache_namespace import group_scope, key_scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """An authenticated caller of the server.

    `name` is the start of the key's digest, empty without a key. Callers of the same `cache_scope` share
    prefix-cache entries; without a key it is empty.
    """

    name: str
    may_administer: bool
    cache_scope: bytes = b""


class KeyCheck:
    """Checks API keys against SHA-256 digests.

    Without configured keys it accepts every caller. A caller with one of the `admin_keys` may administer;
    without configured admin keys every accepted caller may. Each key has its own cache scope, unless
    `cache_groups` (lists of keys by group name) joins several. Raises SettingsError for a group with an
    unknown key, or a key of two groups.
    """

    def __init__(
        self,
        api_keys: Sequence[str],
        admin_keys: Sequence[str] = (),
        cache_groups: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self._is_required = bool(api_keys)
        self._admins = tuple(_digest(key) for key in admin_keys)
        self._digests = (*(_digest(key) for key in api_keys), *self._admins)
        self._scopes = {digest: key_scope(digest) for digest in self._digests} | self._group_scopes(
            cache_groups or {}
        )
        self._callers_are_one = len({*self._digests}) <= 1

    def identify(self, *, authorization: str | None, x_api_key: str | None) -> Caller:
        """Return the caller of a `Bearer KEY` header or a bare key.

        Raises AuthenticationFailed.
        """
        offered = [_digest(key) for key in (x_api_key, _bearer(authorization)) if key]
        accepted = [digest for digest in offered if _is_among(digest, self._digests)]
        admins = [digest for digest in accepted if _is_among(digest, self._admins)]
        if self._is_required and not accepted:
            if offered:
                raise AuthenticationFailed("the API key is not valid for this server")
            raise AuthenticationFailed(
                "an API key is required: send 'Authorization: Bearer KEY' or 'x-api-key: KEY'"
            )
        may_administer = bool(admins) or not self._admins
        known = next((digest for digest in (*admins, *accepted)), None)
        if known is None:
            return Caller(name="", may_administer=may_administer)
        return Caller(name=known.hex()[:16], may_administer=may_administer, cache_scope=self._scopes[known])

    def may_see_others(self, caller: Caller) -> bool:
        """Whether the caller may see other callers' data.

        That takes an admin key, or being the only API key.
        """
        return caller.may_administer and (bool(self._admins) or self._callers_are_one)

    def _group_scopes(self, groups: Mapping[str, Sequence[str]]) -> dict[bytes, bytes]:
        scopes: dict[bytes, bytes] = {}
        for name, keys in groups.items():
            for digest in map(_digest, keys):
                if digest not in self._digests:
                    raise SettingsError(
                        f"cache group {name!r} names a key that is no API key and no admin key; add it to "
                        "these"
                    )
                if scopes.setdefault(digest, group_scope(name)) != group_scope(name):
                    raise SettingsError(
                        f"cache group {name!r} names a key of another group; a key shares with one group only"
                    )
        return scopes


def _is_among(offered: bytes, digests: Sequence[bytes]) -> bool:
    # SEC: all digests are compared, so the time does not reveal which one matched.
    return sum(hmac.compare_digest(offered, digest) for digest in digests) > 0


def _bearer(authorization: str | None) -> str | None:
    scheme, _, key = (authorization or "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else None


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
