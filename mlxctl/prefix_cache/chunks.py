"""What a prefix is: a chain of chunks, each named by everything before it. Pure; knows no mlx and no storage.

Chunk key = BLAKE2b-128(parent key, token ids as little-endian uint32, digests of the images whose span
overlaps the chunk). The first parent is the namespace, so equal tokens of different models never meet. Text
before an image is not salted by it and stays shared. A caller's namespace salts the first token, and with it
all that follows: equal tokens of different callers never meet.
"""

import sys
from collections.abc import Sequence
from hashlib import blake2b

from mlxctl.ir.tokens import Salt, overlapping

CHUNK_TOKENS = 512
_KEY_BYTES = 16
# No vocabulary is near 2 ** 24, and the ids of a chunk are most of what it takes beside its payload.
ID_BYTES = 3

Key = bytes


def to_24_bit(tokens: bytes) -> bytes:
    """Return packed uint32 ids in three bytes each, least significant first.

    Raises ValueError for an id that needs more.
    """
    places = range(4) if sys.byteorder == "little" else range(3, -1, -1)
    *kept, highest = (tokens[place::4] for place in places)
    if highest.count(0) != len(highest):
        raise ValueError("a token id does not fit into 24 bits")
    ids = bytearray(ID_BYTES * len(highest))
    for place, column in enumerate(kept):
        ids[place::ID_BYTES] = column
    return bytes(ids)


def from_24_bit(ids: bytes) -> bytes:
    """Return what `to_24_bit` was given."""
    tokens = bytearray(len(ids) // ID_BYTES * 4)
    for place in range(ID_BYTES):
        tokens[place if sys.byteorder == "little" else 3 - place :: 4] = ids[place::ID_BYTES]
    return bytes(tokens)


def root_key(namespace: bytes) -> Key:
    """Return the parent of every first chunk in the namespace."""
    return blake2b(namespace, digest_size=_KEY_BYTES).digest()


def chunk_key(parent: Key, tokens: bytes, salts: Sequence[Salt] = (), *, start: int = 0) -> Key:
    """Return the key of the chunk of packed `tokens` that begins at `start` after `parent`."""
    digest = blake2b(parent, digest_size=_KEY_BYTES)
    digest.update(tokens)
    for salt in overlapping(salts, start, start + len(tokens) // 4) if salts else ():
        digest.update(b"%d:%d:" % (salt.start - start, salt.end - start))
        digest.update(salt.digest)
    return digest.digest()


def state_key(
    parent: Key, tokens: bytes, num_tokens: int, salts: Sequence[Salt] = (), *, start: int = 0
) -> Key:
    """Return the key of the prefix that ends `num_tokens` into a chunk: the same for all chunks that begin
    alike.
    """
    return chunk_key(parent, tokens[: 4 * num_tokens], salts, start=start)
