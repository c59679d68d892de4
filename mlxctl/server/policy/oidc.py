"""Validation of tokens of an OpenID Connect provider.

They are signed JWTs (RFC 7519) that name a caller and its scopes.
"""

import hashlib
import time
from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from joserfc import errors, jwt
from msgspec import Struct

from mlxctl.ir.allowed_models import EVERY_MODEL
from mlxctl.ir.cache_namespace import key_scope
from mlxctl.ir.errors import InvalidToken
from mlxctl.ir.policy import SCOPES, Caller, Scope
from mlxctl.server.policy.jwks import JwksCache

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519")
"""Asymmetric signatures; `none` and HMAC are never accepted."""

MAX_TOKEN_CHARS = 16 * 1024
MAX_PRIORITY = 100
_MAX_SUBJECT_CHARS = 256
_TYPES = ("jwt", "at+jwt", "application/at+jwt")


class _Header(Struct, kw_only=True):
    """The parts of a token's header that choose its key."""

    alg: str
    kid: str | None = None
    typ: str = "JWT"


class OidcTokens:
    """Validates the tokens of one provider. Event-loop thread only.

    A token must be signed by a key of `keys` with one of `algorithms`, and name `issuer`, `audience`, a
    subject and an expiry; clocks may differ by `leeway_seconds`. The claim `scope_claim` (a name or a dotted
    path) is a list, or a text of words; `role_map` gives the scopes of each word. With an empty map the words
    are scopes. The claim `priority_claim` has the most urgent priority of the caller.
    """

    def __init__(
        self,
        keys: JwksCache,
        *,
        issuer: str,
        audience: str,
        algorithms: Sequence[str] = ("RS256",),
        leeway_seconds: float = 60.0,
        scope_claim: str = "scope",
        priority_claim: str | None = None,
        role_map: Mapping[str, Sequence[Scope]] | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._keys = keys
        self._issuer = issuer
        self._audience = audience
        self._algorithms = tuple(algorithms)
        self._leeway_seconds = leeway_seconds
        self._scope_claim = scope_claim
        self._priority_claim = priority_claim
        self._role_map = role_map or {}
        self._now = now

    async def caller(self, token: str) -> Caller:
        """Return the caller that a token names.

        Its name is `oidc:SUBJECT`. Raises InvalidToken, and PolicyUnavailable without the provider's keys.
        """
        header = _header(token)
        if header.alg not in self._algorithms:
            raise InvalidToken(f"it is not signed with {' or '.join(self._algorithms)}")
        if header.typ.lower() not in _TYPES:
            raise InvalidToken("its header says that it is not an access token")
        key = await self._keys.find(header.kid, header.alg)
        if key is None:
            raise InvalidToken("it is signed with a key that the identity provider does not have")
        try:
            claims = jwt.decode(token, key.key, algorithms=[header.alg]).claims
            self._registry().validate(claims)
        except errors.ExpiredTokenError:
            raise InvalidToken("it has expired") from None
        except errors.ClaimError as error:
            problem = "is in the future" if error.claim in ("nbf", "iat") else "is missing or not accepted"
            raise InvalidToken(f"its claim {error.claim!r} {problem}") from None
        except (errors.JoseError, ValueError, TypeError, RecursionError):
            raise InvalidToken("its signature does not match") from None
        return self._caller(claims)

    async def close(self) -> None:
        """Close the connections to the provider. Idempotent."""
        await self._keys.close()

    def _registry(self) -> jwt.JWTClaimsRegistry:
        return jwt.JWTClaimsRegistry(
            now=int(self._now()),
            leeway=int(self._leeway_seconds),
            iss={"essential": True, "value": self._issuer},
            aud={"essential": True, "value": self._audience},
            exp={"essential": True},
            sub={"essential": True},
        )

    def _caller(self, claims: dict[str, Any]) -> Caller:
        subject = claims["sub"]
        if not isinstance(subject, str) or not subject.isprintable() or len(subject) > _MAX_SUBJECT_CHARS:
            raise InvalidToken("its subject is not a printable text of up to 256 characters")
        identity = hashlib.sha256(f"{self._issuer}\0{subject}".encode()).digest()
        return Caller(
            name=f"oidc:{subject}",
            scopes=self._scopes(claims),
            models=EVERY_MODEL,
            # A token lists its scopes explicitly, so that these alone decide.
            sees_others=True,
            cache_scope=key_scope(identity),
            priority=self._priority(claims),
        )

    def _priority(self, claims: dict[str, Any]) -> int | None:
        """Return the priority of a caller; None without the claim. Raises InvalidToken."""
        if self._priority_claim is None or (value := _claim(claims, self._priority_claim)) is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or abs(value) > MAX_PRIORITY:
            raise InvalidToken(f"its claim {self._priority_claim!r} is not a whole number from -100 to 100")
        return value

    def _scopes(self, claims: dict[str, Any]) -> frozenset[Scope]:
        granted = _texts(_claim(claims, self._scope_claim))
        if self._role_map:
            scopes = {scope for role in granted for scope in self._role_map.get(role, ())}
        else:
            scopes = {scope for scope in SCOPES if scope in granted}
        return frozenset(SCOPES if "admin" in scopes else scopes)


def _header(token: str) -> _Header:
    if len(token) > MAX_TOKEN_CHARS:
        raise InvalidToken(f"it has more than {MAX_TOKEN_CHARS} characters")
    encoded = token.partition(".")[0]
    try:
        return msgspec.json.decode(urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)), type=_Header)
    except (ValueError, RecursionError):
        raise InvalidToken("its header is malformed") from None


def _claim(claims: dict[str, Any], name: str) -> Any:
    """Return a claim by its name or by a dotted path."""
    if name in claims:
        return claims[name]
    value: Any = claims
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _texts(value: Any) -> frozenset[str]:
    if isinstance(value, str):
        return frozenset(value.split())
    items = value if isinstance(value, list) else []
    return frozenset(item for item in items if isinstance(item, str))
