"""Thinking of Granite 3.2.

From `Here is my thought process:` to `Here is my response:`.
"""

from mlxctl.formats.parsers.declarations import ThinkingParser

THINKING = ThinkingParser(
    id="granite_prose",
    opener="Here is my thought process:",
    closer="Here is my response:",
    trims="\n ",
    other_openers=("Here's my thought process:",),
    other_closers=("Here's my response:",),
    closed_block="Here is my thought process:\n\nHere is my response:\n\n",
    closing="\n\nHere is my response:\n\n",
    supports_toggle=True,
)
