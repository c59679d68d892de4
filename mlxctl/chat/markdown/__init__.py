"""Markdown of language models for the terminal, without hiding text."""

from mlxctl.chat.markdown.palette import Palette
from mlxctl.chat.markdown.parser import code_blocks
from mlxctl.chat.markdown.renderable import MarkdownText

__all__ = ["MarkdownText", "Palette", "code_blocks"]
