"""The last line of a screen: keys and what they do."""

from collections.abc import Sequence
from typing import cast

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.widgets import Footer
from textual.widgets._footer import FooterKey

# Textual's padding around a key and after its description.
_PADDING = 3


class KeyFooter(Footer):
    """Shows as many keys as fit, none of them cut off."""

    def __init__(self) -> None:
        super().__init__(show_command_palette=False)

    def compose(self) -> ComposeResult:
        """List all keys, and show the first that fit in the width."""
        keys = [cast("FooterKey", widget) for widget in super().compose()]
        self._show(keys)
        yield from keys

    def on_resize(self) -> None:
        """Choose again what fits."""
        self._show(list(self.query(FooterKey)))

    def _show(self, keys: Sequence[FooterKey]) -> None:
        free = self.size.width
        for key in keys:
            free -= cell_len(key.key_display) + cell_len(key.description) + _PADDING
            key.display = free >= 0
