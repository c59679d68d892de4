"""The console that commands print tables to."""

from typing import Any

from rich.console import Console

_WIDE = 160


class _FileConsole(Console):
    """Writes to a file or another program: no line ends with the blanks that fill up a table's last column."""

    def print(self, *objects: Any, **options: Any) -> None:
        with self.capture() as captured:
            super().print(*objects, **options)
        self.file.write("\n".join(line.rstrip(" ") for line in captured.get().split("\n")))


def console(*, width: int = _WIDE) -> Console:
    """Return the console for standard output; where that is no terminal, lines have `width` columns."""
    found = Console(highlight=False)
    return found if found.is_terminal else _FileConsole(highlight=False, width=width)
