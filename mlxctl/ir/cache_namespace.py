"""Prefix-cache namespaces: which callers share cached prefixes.

All are digests, stable across restarts.
"""

from hashlib import blake2b

from mlxctl.ir.tokens import CALLER_BYTES, namespace_within

_DIGEST_BYTES = 16


def key_scope(key_digest: bytes) -> bytes:
    """Return the cache scope of one API key; `key_digest` is its SHA-256."""
    return blake2b(key=key_digest, digest_size=CALLER_BYTES, person=b"mlxctl key").digest()


def group_scope(name: str) -> bytes:
    """Return the cache scope of a cache group."""
    return blake2b(name.encode(), digest_size=CALLER_BYTES, person=b"mlxctl group").digest()


def cache_namespace(scope: bytes, salt: str) -> bytes:
    """Return a request's namespace: the caller's scope, divided by `cache_salt`.

    It begins with the scope, so that no salt leads into another caller's namespace. An empty salt is none.
    """
    if not salt:
        return scope
    digest = blake2b(salt.encode(), key=scope, digest_size=_DIGEST_BYTES, person=b"mlxctl salt").digest()
    return namespace_within(scope, digest)
