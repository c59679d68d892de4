"""Callers of keys, and the keys that requests offer."""

from mlxctl.ir.allowed_models import AllowedModels
from mlxctl.ir.cache_namespace import group_scope, key_scope
from mlxctl.ir.errors import AuthenticationFailed
from mlxctl.ir.policy import SCOPES, ApiKey, Caller


def caller_of(key: ApiKey, *, sees_others: bool, is_stored: bool = False) -> Caller:
    """Return the caller that a key stands for."""
    return Caller(
        name=key.id,
        scopes=frozenset(SCOPES if "admin" in key.scopes else key.scopes),
        sees_others=sees_others,
        cache_scope=group_scope(key.cache_group) if key.cache_group else key_scope(_identity(key)),
        models=AllowedModels.of_key(key.models),
        priority=key.priority,
        limits=key.limits,
        is_stored=is_stored,
    )


def offered_secrets(authorization: str | None, x_api_key: str | None) -> list[str]:
    """Return the keys in an authorization header and an x-api-key header."""
    scheme, _, key = (authorization or "").partition(" ")
    bearer = key.strip() if scheme.lower() == "bearer" else ""
    return [secret for secret in (x_api_key, bearer) if secret]


def is_token(secret: str) -> bool:
    """Whether a secret has the form of a signed JWT."""
    return secret.startswith("eyJ") and secret.count(".") == 2


def rejection(offered: list[str]) -> AuthenticationFailed:
    """Return the error for a caller without a valid key."""
    if offered:
        return AuthenticationFailed("the API key is not valid for this server")
    return AuthenticationFailed(
        "an API key is required: send 'Authorization: Bearer KEY' or 'x-api-key: KEY'"
    )


def _identity(key: ApiKey) -> bytes:
    """Return what identifies a key, also after its rotation."""
    return bytes.fromhex(key.sha256) if key.sha256.startswith(key.id) else key.id.encode()
