"""What a prefix is: a chain of chunks, each named by everything before it. Pure; knows no mlx and no storage.

Chunk key = BLAKE2b-128(parent key, token ids as little-endian uint32, digests of the images whose span overlaps the chunk). The
first parent is the namespace, so equal tokens of different models never meet. Text before an image is not salted by it and stays
shared.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

CHUNK_TOKENS = 256
_KEY_BYTES = 16

Key = bytes
if TYPE_CHECKING:
    Tokens = array[int]
else:
    # Python 3.11 has no subscript for it.
    Tokens = array


@dataclass(frozen=True, slots=True)
class Salt:
    """What makes the tokens `start` to `end` (exclusive) mean something else than their ids say: a digest of an image's pixels."""

    start: int
    end: int
    digest: bytes


def pack(token_ids: Sequence[int]) -> Tokens:
    """Return the ids as an array of uint32."""
    return array("I", token_ids)


def root_key(namespace: bytes) -> Key:
    """Return the parent of every first chunk in the namespace."""
    return blake2b(namespace, digest_size=_KEY_BYTES).digest()


def chunk_key(parent: Key, tokens: bytes, salts: Sequence[Salt] = (), *, start: int = 0) -> Key:
    """Return the key of the chunk of packed `tokens` that begins at `start` after `parent`."""
    digest = blake2b(parent, digest_size=_KEY_BYTES)
    digest.update(tokens)
    end = start + len(tokens) // 4
    for salt in salts:
        if salt.start < end and salt.end > start:
            digest.update(b"%d:%d:" % (salt.start - start, salt.end - start))
            digest.update(salt.digest)
    return digest.digest()


def state_key(chunk: Key, parent: Key | None, namespace: bytes, tokens: bytes, num_tokens: int) -> Key:
    """Return the key of the prefix that ends `num_tokens` into an unsalted chunk: the same for all chunks that begin alike."""
    if 4 * num_tokens == len(tokens):
        return chunk
    return chunk_key(parent or root_key(namespace), tokens[: 4 * num_tokens])


def common_length(one: memoryview, other: memoryview) -> int:
    """Return how many leading bytes agree, by halving: comparing is a memcmp, so the search costs little more than one."""
    low, high = 0, min(len(one), len(other))
    if one[:high] == other[:high]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle
    return low


def common_tokens(one: Tokens, other: Tokens) -> int:
    """Return the length of the longest common prefix, in tokens."""
    return common_length(memoryview(one).cast("B"), memoryview(other).cast("B")) // 4
