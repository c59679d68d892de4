"""Thinking of Gemma 4: `<|channel>thought` to `<channel|>`.

The models sometimes leave out the channel's name, or the marker before it.
"""

from mlxctl.formats.parsers.declarations import ThinkingParser

THINKING = ThinkingParser(
    id="gemma4_channel",
    opener="<|channel>thought",
    closer="<channel|>",
    trims="\n",
    other_openers=("<|channel>",),
    bare_opener="thought\n",
    closed_block="<|channel>thought\n<channel|>",
    closing="<channel|>",
    supports_toggle=True,
)
