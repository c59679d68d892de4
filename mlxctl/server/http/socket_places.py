"""Places for WebSockets, in all and of each caller.

Event-loop thread only.
"""

import resource
from collections import Counter
from collections.abc import Callable

from mlxctl.ir.errors import CapacityError

# Of an API key, or of an address without one.
_MAX_BY_CALLER = 32
_MAX_IN_ALL = 256
SHARE_OF_FILES = 8
"""The part of the file descriptors that WebSockets may have."""
_RETRY_AFTER_SECONDS = 30.0


class SocketPlaces:
    """Counts open WebSockets by caller."""

    def __init__(self) -> None:
        self._by_caller: Counter[str] = Counter()

    def take(self, caller: str) -> Callable[[], None]:
        """Count a WebSocket; returns a function for its end.

        Raises CapacityError.
        """
        max_in_all = min(_MAX_IN_ALL, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // SHARE_OF_FILES)
        if self._by_caller[caller] >= _MAX_BY_CALLER:
            reason = f"a caller may have {_MAX_BY_CALLER} WebSockets; close one, or use POST"
        elif self._by_caller.total() >= max_in_all:
            reason = f"all {max_in_all} WebSockets are open; try again later, or use POST"
        else:
            self._by_caller[caller] += 1
            return lambda: self._give_back(caller)
        self._drop_empty(caller)
        raise CapacityError(reason, retry_after_seconds=_RETRY_AFTER_SECONDS)

    def _give_back(self, caller: str) -> None:
        self._by_caller[caller] -= 1
        self._drop_empty(caller)

    def _drop_empty(self, caller: str) -> None:
        if not self._by_caller[caller]:
            del self._by_caller[caller]
