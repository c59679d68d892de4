"""Base application: readable colors, saved theme, system clipboard, Option-Enter."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual.app import App
from textual.binding import Binding
from textual.filter import LineFilter
from textual.keys import Keys
from textual.theme import Theme
from textual.widget import Widget
from textual.widgets._toast import Toast

from mlxctl.chat.contrast import ReadableColors
from mlxctl.chat.control_filter import ControlFilter
from mlxctl.chat.preferences import Preferences, detect_terminal_theme
from mlxctl.terminal_text import escape_control_characters

_COPY_SECONDS = 2.0
_MAX_NOTIFICATIONS = 2


def clipboard_command(
    environment: Mapping[str, str] = os.environ, platform: str = sys.platform
) -> list[str] | None:
    """Return the system's clipboard command; None when only OSC 52 is possible."""
    if environment.get("SSH_CONNECTION") or environment.get("SSH_TTY"):
        # Over SSH the clipboard of this machine is not the user's.
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


def copy_with_command(command: list[str], text: str) -> bool:
    """Pass the text to the command; return success.

    Blocks for two seconds at most.
    """
    # pbcopy decodes its input with the locale, which may be unset.
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


if TYPE_CHECKING:
    from mlxctl.chat.markdown import Palette


# Option-Enter and Alt-Enter arrive as ESC CR, which Textual maps to Enter: the key would send the message.
cast("dict[str, tuple[Keys, ...]]", ANSI_SEQUENCES_KEYS)["\x1b\r"] = (Keys.ControlJ,)


class TerminalApp(App[None]):
    """Applies the saved theme at start and saves each new one."""

    BINDINGS = [Binding("ctrl+z", "suspend_process", show=False)]  # noqa: RUF012 -- Textual API

    # At the bottom, toasts would cover the input and the status line.
    CSS = """
    ToastRack { dock: top; align: right top; margin: 0; }
    Toast { max-width: 75%; max-height: 5; padding: 0 1; margin: 0 0 1 0; }
    CommandPalette #--input { border: hkey $foreground 50%; }
    CommandList { border-bottom: hkey $foreground 50%; }
    """

    def __init__(self, preferences: Preferences | None = None) -> None:
        super().__init__()
        self._preferences = preferences or Preferences(None)
        self._readable_colors = ReadableColors(has_few_colors=self.console.color_system == "256")
        self._controls = ControlFilter()
        self._palettes: dict[str, Palette] = {}
        # Their colors are those of the terminal, which may be unreadable on its background.
        for name in [name for name, theme in self.available_themes.items() if theme.ansi]:
            self.unregister_theme(name)
        remembered = self._preferences.theme
        self.theme = remembered if remembered in self.available_themes else detect_terminal_theme()
        self._first_theme = self.theme

    @property
    def preferences(self) -> Preferences:
        """The settings that are saved between runs."""
        return self._preferences

    def on_mount(self) -> None:
        """Save theme changes from now on; redraw after ^Z and fg."""
        self.app_resume_signal.subscribe(self, lambda _: self.screen.refresh(layout=True))
        self.theme_changed_signal.subscribe(self, self._save_theme)

    def notify(self, message: str, **options: Any) -> None:
        """Notify the user; control characters are visible."""
        super().notify(escape_control_characters(message), **options)

    def on_notify(self) -> None:
        """Make room for a new notification: many would cover the screen."""
        old = list(self._notifications)[: 1 - _MAX_NOTIFICATIONS]
        for notification in old:
            self._unnotify(notification, refresh=False)
        # With their holders: Textual would leave those, and they push later notifications off the screen.
        for toast in [toast for screen in self.screen_stack for toast in screen.query(Toast)]:
            if toast._notification in old and isinstance(toast.parent, Widget):  # noqa: SLF001 -- no public way
                toast.parent.remove()

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return Textual's filters, followed by those for controls and contrast."""
        return [*super().get_line_filters(), self._controls, self._readable_colors]

    @property
    def palette(self) -> "Palette":
        """Markdown colors of the current theme."""
        from mlxctl.chat.markdown import Palette

        if self.theme not in self._palettes:
            self._palettes[self.theme] = Palette.from_theme(self.current_theme, self.theme_variables)
        return self._palettes[self.theme]

    def _save_theme(self, theme: Theme) -> None:
        if theme.name != self._first_theme:
            self._first_theme = ""
            self._preferences.save_theme(theme.name)

    def copy_to_clipboard(self, text: str) -> None:
        """Copy for all widgets, including mouse selections."""
        self.copy_text(text)

    def copy_text(self, text: str) -> str:
        """Copy, and return the means: a command's name or OSC 52."""

        command = clipboard_command()
        if command is not None and copy_with_command(command, text):
            self._clipboard = text
            return command[0]
        super().copy_to_clipboard(text)
        return "OSC 52"
