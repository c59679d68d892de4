"""The right to use a model that is in memory. Event-loop thread only."""

from collections.abc import Callable


class Lease:
    """As long as one holds, the model stays in memory.

    Whoever has it releases it, however the work ended; twice does no harm.

    `on_change` is told the model and by how much the number of its leases changed.
    """

    def __init__(self, name: str, on_change: Callable[[str, int], None]) -> None:
        self.name = name
        self._on_change = on_change
        self._is_open = True
        on_change(name, 1)

    def share(self) -> "Lease":
        """Return another lease of the same model, which ends by itself."""
        assert self._is_open, "only a lease that holds can be shared"
        return Lease(self.name, self._on_change)

    def release(self) -> None:
        """End it."""
        if self._is_open:
            self._is_open = False
            self._on_change(self.name, -1)
