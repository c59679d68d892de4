"""Prefix-cache namespaces: which callers share what was computed.

Digests only, the same after every restart.
"""

from hashlib import blake2b

_DIGEST_BYTES = 16


def key_scope(key_digest: bytes) -> bytes:
    """Return the scope of an API key that shares with no other; `key_digest` is its SHA-256."""
    return blake2b(key=key_digest, digest_size=_DIGEST_BYTES, person=b"mlxctl key").digest()


def group_scope(name: str) -> bytes:
    """Return the scope that all keys of a cache group share."""
    return blake2b(name.encode(), digest_size=_DIGEST_BYTES, person=b"mlxctl group").digest()


def cache_namespace(scope: bytes, salt: str) -> bytes:
    """Return the namespace of a request: its caller's scope, divided by the request's `cache_salt` unless
    that is empty.

    A salt is hashed under the scope, so that no salt leads into another caller's namespace.
    """
    if not salt:
        return scope
    return blake2b(salt.encode(), key=scope, digest_size=_DIGEST_BYTES, person=b"mlxctl salt").digest()
