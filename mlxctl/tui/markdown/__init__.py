"""Markdown for the terminal: what a model wrote is formatted, and nothing of it is hidden."""

from mlxctl.tui.markdown.palette import Palette
from mlxctl.tui.markdown.renderable import MarkdownText

__all__ = ["MarkdownText", "Palette"]
