"""Siblings: the chunks after one parent, ordered by token ids. Pure.

A namespace may have tens of thousands of them: every short conversation is one chunk. Chunks with equal salts
are a group within the order, sorted by ids; a lookup takes O(log n) for each group.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from heapq import merge
from typing import Generic, Protocol, TypeVar

from mlxctl.ir.tokens import Salt, common_length, first_salt_difference
from mlxctl.prefix_cache.chunks import ID_BYTES


class TokenRun(Protocol):
    """What the order needs of a chunk."""

    ids: bytes
    salts: tuple[Salt, ...]

    def starts_with(self, ids: bytes, salts: Sequence[Salt]) -> bool:
        """Whether the chunk has these leading ids, under the same salts."""
        ...


C = TypeVar("C", bound=TokenRun)
SaltsOrder = tuple[tuple[int, int, bytes], ...]


class Siblings(Generic[C]):
    """Chunks with one parent; no two have the same salts and ids.

    It holds only the list: a dict of the keys would take more memory than a chunk's other fields.
    """

    __slots__ = ("_ordered",)

    def __init__(self) -> None:
        self._ordered: list[C] = []

    def __len__(self) -> int:
        return len(self._ordered)

    def __iter__(self) -> Iterator[C]:
        return iter(self._ordered)

    def add(self, chunk: C) -> None:
        """Add a new chunk."""
        insort(self._ordered, chunk, key=_order)

    def remove(self, chunk: C) -> None:
        """Remove a chunk, which must be among them."""
        index = bisect_left(self._ordered, _order(chunk), key=_order)
        assert self._ordered[index] is chunk, "siblings differ in salts or ids"
        del self._ordered[index]

    def closest(self, ids: bytes, salts: Sequence[Salt], *, start: int) -> Iterator[tuple[C, int]]:
        """Yield chunks that share leading tokens, the longest match first.

        Each comes with the position up to which it agrees. `start` is the position of the first token.
        """
        groups = [self._closest_in_group(first, end, ids, salts, start) for first, end in self._groups()]
        return groups[0] if len(groups) == 1 else merge(*groups, key=lambda found: -found[1])

    def covering(self, ids: bytes, salts: Sequence[Salt]) -> C | None:
        """Return a chunk that starts with these ids under the same salts."""
        return next((chunk for chunk in self.starting_with(ids) if chunk.starts_with(ids, salts)), None)

    def starting_with(self, ids: bytes) -> Iterator[C]:
        """Yield the chunks that start with these ids, under any salts."""
        for first, end in self._groups():
            index = bisect_left(self._ordered, ids, first, end, key=_ids)
            while index < end and self._ordered[index].ids.startswith(ids):
                yield self._ordered[index]
                index += 1

    def extended_by(self, chunk: C) -> list[C]:
        """Return the other chunks whose tokens and salts `chunk` starts with."""
        return [
            prefix
            for first, end in self._groups()
            for prefix in self._prefixes_in_group(first, end, chunk.ids)
            if prefix is not chunk and chunk.starts_with(prefix.ids, prefix.salts)
        ]

    def _groups(self) -> Iterator[tuple[int, int]]:
        """Yield the bounds of each group."""
        first, num = 0, len(self._ordered)
        while first < num:
            salts = self._ordered[first].salts
            end = num
            if self._ordered[-1].salts != salts:
                end = bisect_right(
                    self._ordered, _salts_order(salts), first, key=lambda chunk: _salts_order(chunk.salts)
                )
            yield first, end
            first = end

    def _closest_in_group(
        self, first: int, end: int, ids: bytes, salts: Sequence[Salt], start: int
    ) -> Iterator[tuple[C, int]]:
        """Walk both ways from the place of `ids`.

        The farther a chunk, the less it shares.
        """
        above = bisect_left(self._ordered, ids, first, end, key=_ids)
        below = above - 1
        num_below, num_above = (
            self._num_common(below, first, end, ids),
            self._num_common(above, first, end, ids),
        )
        while num_below or num_above:
            if num_below > num_above:
                chunk, num_common = self._ordered[below], num_below
                below -= 1
                num_below = self._num_common(below, first, end, ids)
            else:
                chunk, num_common = self._ordered[above], num_above
                above += 1
                num_above = self._num_common(above, first, end, ids)
            position = start + num_common
            if salts or chunk.salts:
                position = first_salt_difference(salts, chunk.salts, start, position)
            if position <= start:
                return
            yield chunk, position

    def _num_common(self, index: int, first: int, end: int, ids: bytes) -> int:
        """Return how many leading tokens a chunk shares.

        0 for an index outside of the group.
        """
        if not first <= index < end:
            return 0
        return common_length(self._ordered[index].ids, ids) // ID_BYTES

    def _prefixes_in_group(self, first: int, end: int, ids: bytes) -> Iterator[C]:
        """Yield the chunks that `ids` start with, the longest first.

        All prefixes of `ids` are at most `ids` in the order. What the greatest such chunk does not share, no
        prefix has.
        """
        while ids:
            index = bisect_right(self._ordered, ids, first, end, key=_ids) - 1
            if index < first:
                return
            chunk = self._ordered[index]
            num_common = common_length(chunk.ids, ids)
            if num_common == len(chunk.ids):
                yield chunk
                num_common -= ID_BYTES
            ids = ids[: num_common - num_common % ID_BYTES]


def _ids(chunk: TokenRun) -> bytes:
    return chunk.ids


def _order(chunk: TokenRun) -> tuple[SaltsOrder, bytes]:
    return _salts_order(chunk.salts), chunk.ids


def _salts_order(salts: Sequence[Salt]) -> SaltsOrder:
    return tuple((salt.start, salt.end, salt.digest) for salt in salts) if salts else ()
