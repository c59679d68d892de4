"""An observer that writes down what happened."""

import asyncio
from dataclasses import dataclass, field


@dataclass
class RecordingObserver:
    """May cancel the run at a given line."""

    cancels_at: str | None = None
    lines: list[str] = field(default_factory=list)

    def open(self, label: str, url: str | None) -> None:
        """Nothing worth a line."""

    def begin(self, what: str, label: str) -> None:
        line = f"{label} {what}"
        self.lines.append(line)
        if line == self.cancels_at:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()

    def end(self, what: str, label: str, *, is_last: bool) -> None:
        """Nothing worth a line."""
