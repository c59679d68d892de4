"""Tools and items that a request holds and a model is not shown, because only the protocol's own maker can
run them.
"""

import logging
from collections.abc import Iterable

# Callers choose these names: so many of them, and so much of each, get into the log.
_MOST_TYPES = 64
_MOST_CHARS = 64

_log = logging.getLogger(__name__)


class DroppedToolsLog:
    """Says of each type once that it is left out. Event-loop thread only."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def tell(self, types: Iterable[str]) -> None:
        """Log the types that were not told before."""
        for name in (kind[:_MOST_CHARS] for kind in types):
            if name not in self._told and len(self._told) < _MOST_TYPES:
                self._told.add(name)
                _log.warning("left out of requests from now on, since only its maker can run it: %r", name)
