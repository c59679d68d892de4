"""Why something is not there any more: the last chunks that left an index, and what for. Pure; bounded."""

from collections import OrderedDict
from typing import Literal

from mlxctl.prefix_cache.chunks import ID_BYTES, Key

EvictionReason = Literal["evicted", "expired", "cleared"]

MAX_DEPARTURES = 4096
# As many leading tokens tell siblings apart as a match needs to be worth anything.
_LEADING_BYTES = 16 * ID_BYTES


def have_equal_start(one: bytes, other: bytes) -> bool:
    """Whether two chunks are told to be the same one in here."""
    return one[:_LEADING_BYTES] == other[:_LEADING_BYTES]


class EvictionLog:
    """Chunks by what they built on and how they begin."""

    def __init__(self) -> None:
        self._reasons: OrderedDict[tuple[Key, bytes], EvictionReason] = OrderedDict()

    def add(self, parent: Key, ids: bytes, reason: EvictionReason) -> None:
        """Note that a chunk of `ids` after `parent` has left."""
        place = (parent, ids[:_LEADING_BYTES])
        self._reasons.pop(place, None)
        self._reasons[place] = reason
        if len(self._reasons) > MAX_DEPARTURES:
            self._reasons.popitem(last=False)

    def reason(self, parent: Key, ids: bytes) -> EvictionReason | None:
        """Return why the chunk that `ids` begin with left, if one did."""
        return self._reasons.get((parent, ids[:_LEADING_BYTES]))
