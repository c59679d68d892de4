"""Into the chat: on a screen when there is a terminal on both ends, else, or when asked, as lines of text."""

import sys

from mlxctl import locations
from mlxctl.tui.options import ChatOptions
from mlxctl.tui.partner import Partner


def run_chat(partner: Partner, options: ChatOptions, *, is_plain: bool) -> int:
    """Chat until the person has enough; returns the exit code. Raises MlxctlError when plain text cannot begin."""
    if not is_plain and not (sys.stdin.isatty() and sys.stdout.isatty()):
        print("mlxctl: there is no terminal on both ends, so this is --plain", file=sys.stderr)
        is_plain = True
    if is_plain:
        from mlxctl.tui.plain import run_plain

        return run_plain(partner, options)
    from mlxctl.tui.app import ChatApp
    from mlxctl.tui.terminal import own_terminal

    app = ChatApp(partner, options)
    with own_terminal(locations.state_directory() / "chat.log"):
        app.run()
    return app.return_code or 0
