"""Token ids of a prompt, and salts that separate equal ids.

Pure values: the prefix cache hashes them, the front explains answers with them.
"""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from mlxctl.ir.images import ProcessedImage

if TYPE_CHECKING:
    Tokens = array[int]
else:
    # Python 3.11 has no subscript for it.
    Tokens = array


@dataclass(frozen=True, slots=True)
class Salt:
    """A digest that separates tokens from equal ids with another origin.

    It covers the tokens `start` to `end` (exclusive): `digest` is of an image's pixels, or a caller's
    namespace. A namespace begins before the first token, where no image can.
    """

    start: int
    end: int
    digest: bytes

    @property
    def is_image(self) -> bool:
        """Whether it belongs to an image in the prompt."""
        return self.start >= 0


CALLER_BYTES = 16
ANONYMOUS = bytes(CALLER_BYTES)
"""Digest that stands for all callers without a key."""


def namespace_within(caller: bytes, digest: bytes) -> bytes:
    """Return a namespace within a caller's, another one for each digest.

    `caller` is a namespace of that caller.
    """
    return (caller[:CALLER_BYTES] or ANONYMOUS) + digest


def caller_digest(salts: Sequence[Salt]) -> bytes:
    """Return the digest of a prompt's caller: the start of its namespace."""
    namespaces = (salt.digest for salt in salts if not salt.is_image)
    return next(namespaces, ANONYMOUS)[:CALLER_BYTES]


def overlapping(salts: Sequence[Salt], start: int, end: int) -> tuple[Salt, ...]:
    """Return the salts that cover one of the tokens `start` to `end`."""
    return tuple(salt for salt in salts if salt.start < end and salt.end > start)


def image_salts(images: Iterable[ProcessedImage]) -> tuple[Salt, ...]:
    """Return one salt for each image of a prompt."""
    return tuple(Salt(image.start, image.end, image.digest) for image in images)


def prompt_salts(namespace: bytes, images: Iterable[ProcessedImage]) -> tuple[Salt, ...]:
    """Return a prompt's salts: the namespace, then the images.

    An empty namespace has none.
    """
    return ((Salt(-1, 1, namespace),) if namespace else ()) + image_salts(images)


def first_salt_difference(one: Sequence[Salt], other: Sequence[Salt], start: int, end: int) -> int:
    """Return the first position where the salts differ, else `end`.

    From `start` on.
    """
    pairs = zip_longest(overlapping(one, start, end), overlapping(other, start, end))
    differing = (salt.start for pair in pairs if pair[0] != pair[1] for salt in pair if salt is not None)
    return max(start, min(differing, default=end))


def pack(token_ids: Sequence[int]) -> Tokens:
    """Return the ids as an array of uint32."""
    return array("I", token_ids)


def common_length(one: memoryview | bytes | str, other: memoryview | bytes | str) -> int:
    """Return the number of leading bytes, or characters, that agree.

    PERF: bisection over memcmp costs little more than one comparison of the whole.
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
    """Return the length in tokens of the longest common prefix.

    `salts` are those of `one`, `other_salts` those of `other`.
    """
    length = common_length(memoryview(one).cast("B"), memoryview(other).cast("B")) // 4
    return first_salt_difference(salts, other_salts, 0, length)
