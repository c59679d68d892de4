"""The console for tables on standard output."""

from typing import Any

from rich.console import Console

_WIDE = 160


class _FileConsole(Console):
    """A console for files and pipes, without trailing blanks."""

    def print(self, *objects: Any, **options: Any) -> None:
        with self.capture() as captured:
            super().print(*objects, **options)
        self.file.write("\n".join(line.rstrip(" ") for line in captured.get().split("\n")))


def console(*, width: int = _WIDE, stderr: bool = False) -> Console:
    """Return the console for standard output or standard error.

    `width` applies off a terminal.
    """
    found = Console(highlight=False, stderr=stderr)
    return found if found.is_terminal else _FileConsole(highlight=False, width=width, stderr=stderr)
