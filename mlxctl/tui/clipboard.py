"""The system clipboard: a command of the system where there is one, else the terminal (OSC 52)."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping

_COPY_SECONDS = 2.0


def clipboard_command(
    environment: Mapping[str, str] = os.environ, platform: str = sys.platform
) -> list[str] | None:
    """Return the command that takes text for this person's clipboard, None when only the terminal can reach
    it.
    """
    if environment.get("SSH_CONNECTION") or environment.get("SSH_TTY"):
        # The clipboard of the machine that we run on is not the one of the person.
        return None
    candidates = []
    if platform == "darwin":
        candidates.append(["pbcopy"])
    if environment.get("WAYLAND_DISPLAY"):
        candidates.append(["wl-copy"])
    if environment.get("DISPLAY"):
        candidates.append(["xclip", "-selection", "clipboard"])
    path = environment.get("PATH")
    return next((command for command in candidates if shutil.which(command[0], path=path)), None)


def copy_with(command: list[str], text: str) -> bool:
    """Give the text to the command; returns whether it took it. Blocks for at most some seconds."""
    # pbcopy reads its input in the encoding of the locale, which may be unset.
    environment = {**os.environ, "LC_CTYPE": "UTF-8"} if command == ["pbcopy"] else None
    try:
        subprocess.run(  # noqa: S603 -- one of the commands above
            command,
            input=text.encode(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_COPY_SECONDS,
            check=True,
            env=environment,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return True
