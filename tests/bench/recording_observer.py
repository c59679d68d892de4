"""An observer that records progress."""

import asyncio
from dataclasses import dataclass, field


@dataclass
class RecordingObserver:
    """Cancels the run at the line `cancels_at`, if given."""

    cancels_at: str | None = None
    lines: list[str] = field(default_factory=list)

    def open(self, label: str, url: str | None) -> None:
        """Record nothing."""

    def begin(self, what: str, label: str) -> None:
        line = f"{label} {what}"
        self.lines.append(line)
        if line == self.cancels_at:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()

    def end(self, what: str, label: str, *, is_last: bool) -> None:
        """Record nothing."""
