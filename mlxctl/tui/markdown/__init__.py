"""Markdown of language models for the terminal, without hiding text."""

from mlxctl.tui.markdown.palette import Palette
from mlxctl.tui.markdown.parser import code_blocks
from mlxctl.tui.markdown.renderable import MarkdownText

__all__ = ["MarkdownText", "Palette", "code_blocks"]
