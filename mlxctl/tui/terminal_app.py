"""What every application here shares: readable colors, a remembered theme, the system's clipboard,
Option-Enter.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual.app import App
from textual.binding import Binding
from textual.filter import LineFilter
from textual.keys import Keys
from textual.theme import Theme

from mlxctl.tui.contrast import ReadableColors
from mlxctl.tui.preferences import Preferences, theme_of_terminal

if TYPE_CHECKING:
    from mlxctl.tui.markdown import Palette


# Option-Enter and Alt-Enter reach us as ESC CR, which Textual takes for Enter: a message would be sent that
# goes on.
cast("dict[str, tuple[Keys, ...]]", ANSI_SEQUENCES_KEYS)["\x1b\r"] = (Keys.ControlJ,)


class TerminalApp(App[None]):
    """Takes `preferences` at the start and tells them each new theme."""

    BINDINGS = [Binding("ctrl+z", "suspend_process", show=False)]  # noqa: RUF012 -- Textual declares it so

    # At the bottom they would cover the input and the numbers.
    CSS = "ToastRack { dock: top; align: right top; margin: 0; }"

    def __init__(self, preferences: Preferences | None = None) -> None:
        super().__init__()
        self._preferences = preferences or Preferences(None)
        self._readable_colors = ReadableColors()
        self._palettes: dict[str, Palette] = {}
        remembered = self._preferences.theme
        self.theme = remembered if remembered in self.available_themes else theme_of_terminal()
        self._first_theme = self.theme

    def on_mount(self) -> None:
        """Remember each theme that is chosen from now on; draw everything again after ^Z and fg."""
        self.app_resume_signal.subscribe(self, lambda _: self.screen.refresh(layout=True))
        self.theme_changed_signal.subscribe(self, self._remember_theme)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return the filters of Textual, and after them the one for contrast."""
        return [*super().get_line_filters(), self._readable_colors]

    @property
    def palette(self) -> "Palette":
        """The colors for Markdown in the theme of now."""
        from mlxctl.tui.markdown import Palette

        if self.theme not in self._palettes:
            self._palettes[self.theme] = Palette.from_theme(self.current_theme, self.theme_variables)
        return self._palettes[self.theme]

    def _remember_theme(self, theme: Theme) -> None:
        if theme.name != self._first_theme:
            self._first_theme = ""
            self._preferences.remember_theme(theme.name)

    def copy_to_clipboard(self, text: str) -> None:
        """Copy for all widgets, mouse selections included: with a command of the system, else over the
        terminal.
        """
        self.copy_text(text)

    def copy_text(self, text: str) -> str:
        """Copy, and return how: the name of the command, or OSC 52."""
        from mlxctl.tui.clipboard import clipboard_command, copy_with

        command = clipboard_command()
        if command is not None and copy_with(command, text):
            self._clipboard = text
            return command[0]
        super().copy_to_clipboard(text)
        return "OSC 52"
