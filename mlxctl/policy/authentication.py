"""API keys: compared by digest, in constant time, so that neither length nor content of a key leaks."""

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlxctl.errors import AuthenticationFailed, SettingsError
from mlxctl.policy.cache_namespace import group_scope, key_scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who asks.

    `name` is the beginning of the key's digest, empty for a caller who needs no key and has none.

    Callers of the same `cache_scope` share what the prefix cache holds; without a key it is empty.
    """

    name: str
    may_administer: bool
    cache_scope: bytes = b""


class KeyCheck:
    """Knows the accepted keys by their SHA-256 digests only. Without any key everybody is let in.

    A caller with one of the `admin_keys` may administer; where there are none, so may everybody who is let
    in. Each key has a cache scope of its own, unless `cache_groups`, lists of keys by the group's name, put
    it into one. Raises SettingsError for a group with an unknown key, or with one of another group.
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
        """Return the caller by either header's value: `Bearer KEY`, or the bare key; raises
        AuthenticationFailed.
        """
        offered = [_digest(key) for key in (x_api_key, _bearer(authorization)) if key]
        accepted = [digest for digest in offered if _is_among(digest, self._digests)]
        admins = [digest for digest in accepted if _is_among(digest, self._admins)]
        if self._is_required and not accepted:
            if offered:
                raise AuthenticationFailed("the API key is not accepted here")
            raise AuthenticationFailed(
                "an API key is needed: send 'Authorization: Bearer KEY' or 'x-api-key: KEY'"
            )
        may_administer = bool(admins) or not self._admins
        known = next((digest for digest in (*admins, *accepted)), None)
        if known is None:
            return Caller(name="", may_administer=may_administer)
        return Caller(name=known.hex()[:16], may_administer=may_administer, cache_scope=self._scopes[known])

    def may_see_others(self, caller: Caller) -> bool:
        """Whether the caller may look at what others asked: one who administers, unless several API keys do."""
        return caller.may_administer and (bool(self._admins) or self._callers_are_one)

    def _group_scopes(self, groups: Mapping[str, Sequence[str]]) -> dict[bytes, bytes]:
        scopes: dict[bytes, bytes] = {}
        for name, keys in groups.items():
            for digest in map(_digest, keys):
                if digest not in self._digests:
                    raise SettingsError(
                        f"cache group {name!r} names a key that is no API key and no admin key; add it to these"
                    )
                if scopes.setdefault(digest, group_scope(name)) != group_scope(name):
                    raise SettingsError(
                        f"cache group {name!r} names a key of another group; a key shares with one group only"
                    )
        return scopes


def _is_among(offered: bytes, digests: Sequence[bytes]) -> bool:
    # SEC: every digest is looked at, so the time taken does not tell which one matched.
    return sum(hmac.compare_digest(offered, digest) for digest in digests) > 0


def _bearer(authorization: str | None) -> str | None:
    scheme, _, key = (authorization or "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else None


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
