"""Siblings: the chunks after one parent, ordered by token ids. Pure.

A namespace may have tens of thousands of them: every short conversation is one chunk. Chunks with equal salts
are a group within the order, sorted by ids. A lookup takes O(log n) for each group that has the same salts at
the first token: one for the texts of a caller, and one for each sequence of images after it.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from heapq import merge
from typing import Generic, Protocol, TypeVar

from mlxctl.ir.tokens import Salt, common_length, first_salt_difference, overlapping
from mlxctl.prefix_cache.chunks import ID_BYTES

MAX_CLOSEST = 8
"""Siblings that a new chunk takes states and segments from; farther ones rarely have better ones."""


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

    `start` is the position of their first token. There is no dict of the keys: it would take more memory than
    a chunk's other fields.
    """

    __slots__ = ("_ordered", "start")

    def __init__(self, start: int) -> None:
        self.start = start
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

    def closest(self, ids: bytes, salts: Sequence[Salt]) -> Iterator[tuple[C, int]]:
        """Yield chunks that share leading tokens, the longest match first.

        Each comes with the position up to which it agrees.
        """
        groups = [self._closest_in_group(first, end, ids, salts) for first, end in self._groups(salts)]
        return groups[0] if len(groups) == 1 else merge(*groups, key=lambda found: -found[1])

    def covering(self, ids: bytes, salts: Sequence[Salt]) -> C | None:
        """Return a chunk that starts with these ids under the same salts."""
        return next(
            (chunk for chunk in self.starting_with(ids, salts) if chunk.starts_with(ids, salts)), None
        )

    def starting_with(self, ids: bytes, salts: Sequence[Salt]) -> Iterator[C]:
        """Yield the chunks that start with these ids.

        Their first token has the same salts, others may differ.
        """
        for first, end in self._groups(salts):
            index = bisect_left(self._ordered, ids, first, end, key=_ids)
            while index < end and self._ordered[index].ids.startswith(ids):
                yield self._ordered[index]
                index += 1

    def extended_by(self, chunk: C) -> list[C]:
        """Return the other chunks whose tokens and salts `chunk` starts with."""
        return [
            prefix
            for first, end in self._groups(chunk.salts)
            for prefix in self._prefixes_in_group(first, end, chunk.ids)
            if prefix is not chunk and chunk.starts_with(prefix.ids, prefix.salts)
        ]

    def _groups(self, salts: Sequence[Salt]) -> Iterator[tuple[int, int]]:
        """Yield the bounds of groups with these salts at the first token."""
        for first, last in self._with_first_salts(
            _salts_order(overlapping(salts, self.start, self.start + 1))
        ):
            while first < last:
                order = _group_order(self._ordered[first])
                end = last
                if _group_order(self._ordered[last - 1]) != order:
                    end = bisect_right(self._ordered, order, first, last, key=_group_order)
                yield first, end
                first = end

    def _with_first_salts(self, first_salts: SaltsOrder) -> Iterator[tuple[int, int]]:
        """Yield the bounds of chunks with these salts at the first token.

        Salts are in the order of their starts, so those of the first token come first.
        """
        if not first_salts and (not self._ordered or not self._ordered[-1].salts):
            yield 0, len(self._ordered)
        elif first_salts:
            num = len(first_salts)
            yield (
                bisect_left(self._ordered, first_salts, key=lambda chunk: _salts_order(chunk.salts[:num])),
                bisect_right(self._ordered, first_salts, key=lambda chunk: _salts_order(chunk.salts[:num])),
            )
        else:
            no_salts: SaltsOrder = ()
            later: SaltsOrder = ((self.start + 1, 0, b""),)
            yield 0, bisect_right(self._ordered, no_salts, key=_group_order)
            yield (
                bisect_left(self._ordered, later, key=_group_order),
                len(self._ordered),
            )

    def _closest_in_group(
        self, first: int, end: int, ids: bytes, salts: Sequence[Salt]
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
            position = self.start + num_common
            if salts or chunk.salts:
                position = first_salt_difference(salts, chunk.salts, self.start, position)
            if position <= self.start:
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
    return _group_order(chunk), chunk.ids


def _group_order(chunk: TokenRun) -> SaltsOrder:
    return _salts_order(chunk.salts)


def _salts_order(salts: Sequence[Salt]) -> SaltsOrder:
    return tuple((salt.start, salt.end, salt.digest) for salt in salts) if salts else ()
