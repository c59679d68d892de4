"""Chunk keys: hashes that name a chunk and everything before it. Pure.

Key = BLAKE2b-128(parent key, token ids as little-endian uint32, salts that cover one of the tokens). The
parent of a first chunk is the hash of the namespace, so equal tokens of different models never match. An
image's digest salts its own tokens and all later chunks, but no text before it. A client's namespace salts
the first token, and with it the whole prompt.
"""

import sys
from collections.abc import Sequence
from hashlib import blake2b

from mlxctl.ir.tokens import Salt, overlapping

CHUNK_TOKENS = 512
_KEY_BYTES = 16
# No vocabulary has near 2 ** 24 tokens, and the ids are most of a chunk's memory beside its payload.
ID_BYTES = 3

Key = bytes


def to_24_bit(tokens: bytes) -> bytes:
    """Return packed uint32 ids in three bytes each, least significant first.

    Raises ValueError for an id of more than 24 bits.
    """
    offsets = range(4) if sys.byteorder == "little" else range(3, -1, -1)
    *lower, highest = (tokens[offset::4] for offset in offsets)
    if highest.count(0) != len(highest):
        raise ValueError("a token id does not fit into 24 bits")
    ids = bytearray(ID_BYTES * len(highest))
    for offset, column in enumerate(lower):
        ids[offset::ID_BYTES] = column
    return bytes(ids)


def from_24_bit(ids: bytes) -> bytes:
    """Return packed uint32 ids from three bytes each."""
    tokens = bytearray(len(ids) // ID_BYTES * 4)
    for offset in range(ID_BYTES):
        tokens[offset if sys.byteorder == "little" else 3 - offset :: 4] = ids[offset::ID_BYTES]
    return bytes(tokens)


def root_key(namespace: bytes) -> Key:
    """Return the parent key of all first chunks of a namespace."""
    return blake2b(namespace, digest_size=_KEY_BYTES).digest()


def chunk_key(parent: Key, tokens: bytes, salts: Sequence[Salt] = (), *, start: int = 0) -> Key:
    """Return the key of a chunk after `parent`.

    `tokens` are packed, `start` is the position of the first one.
    """
    digest = blake2b(parent, digest_size=_KEY_BYTES)
    digest.update(tokens)
    for salt in overlapping(salts, start, start + len(tokens) // 4) if salts else ():
        digest.update(b"%d:%d:" % (salt.start - start, salt.end - start))
        digest.update(salt.digest)
    return digest.digest()


def state_key(
    parent: Key, tokens: bytes, num_tokens: int, salts: Sequence[Salt] = (), *, start: int = 0
) -> Key:
    """Return the key of the prefix that ends `num_tokens` into a chunk.

    Sibling chunks with the same leading tokens have the same one.
    """
    return chunk_key(parent, tokens[: 4 * num_tokens], salts, start=start)
