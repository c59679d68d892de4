"""What a prefix is: a chain of chunks, each named by everything before it. Pure; knows no mlx and no storage.

Chunk key = BLAKE2b-128(parent key, token ids as little-endian uint32, digests of the images whose span
overlaps the chunk). The first parent is the namespace, so equal tokens of different models never meet. Text
before an image is not salted by it and stays shared. A caller's namespace salts the first token, and with it
all that follows: equal tokens of different callers never meet.
"""

import sys
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import zip_longest
from typing import TYPE_CHECKING

from mlxctl.ir import ProcessedImage

CHUNK_TOKENS = 512
_KEY_BYTES = 16
# No vocabulary is near 2 ** 24, and the ids of a chunk are most of what it takes beside its payload.
ID_BYTES = 3

Key = bytes
if TYPE_CHECKING:
    Tokens = array[int]
else:
    # Python 3.11 has no subscript for it.
    Tokens = array


@dataclass(frozen=True, slots=True)
class Salt:
    """What separates the tokens `start` to `end` (exclusive) from equal ids: a digest of an image's pixels or
    a namespace.

    A namespace begins before the first token, where no image can.
    """

    start: int
    end: int
    digest: bytes

    @property
    def is_image(self) -> bool:
        """Whether it stands for an image in the prompt."""
        return self.start >= 0


def overlapping(salts: Sequence[Salt], start: int, end: int) -> tuple[Salt, ...]:
    """Return those that reach into the tokens `start` to `end`."""
    return tuple(salt for salt in salts if salt.start < end and salt.end > start)


def image_salts(images: Iterable[ProcessedImage]) -> tuple[Salt, ...]:
    """Return what the images of a prompt make of its tokens."""
    return tuple(Salt(image.start, image.end, image.digest) for image in images)


def prompt_salts(namespace: bytes, images: Iterable[ProcessedImage]) -> tuple[Salt, ...]:
    """Return the salts of a prompt: the caller's namespace, unless it is empty, then the images."""
    return ((Salt(-1, 1, namespace),) if namespace else ()) + image_salts(images)


def before_difference(one: Sequence[Salt], other: Sequence[Salt], start: int, end: int) -> int:
    """Return how far from `start` on, up to `end`, the same images stand at the same places: to the first
    that does not.
    """
    pairs = zip_longest(overlapping(one, start, end), overlapping(other, start, end))
    differing = (salt.start for pair in pairs if pair[0] != pair[1] for salt in pair if salt is not None)
    return max(start, min(differing, default=end))


def pack(token_ids: Sequence[int]) -> Tokens:
    """Return the ids as an array of uint32."""
    return array("I", token_ids)


def narrow(tokens: bytes) -> bytes:
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


def widened(ids: bytes) -> bytes:
    """Return what `narrow` was given."""
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


def common_length(one: memoryview | bytes, other: memoryview | bytes) -> int:
    """Return how many leading bytes agree, by halving: comparing is a memcmp, so the search costs little more
    than one.
    """
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


def common_tokens(
    one: Tokens, other: Tokens, salts: Sequence[Salt] = (), other_salts: Sequence[Salt] = ()
) -> int:
    """Return the length of the longest common prefix, in tokens; `salts` are those of the one, `other_salts`
    of the other.
    """
    length = common_length(memoryview(one).cast("B"), memoryview(other).cast("B")) // 4
    return before_difference(salts, other_salts, 0, length)
