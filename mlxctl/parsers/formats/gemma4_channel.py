"""Thinking of Gemma 4: `<|channel>thought` to `<channel|>`."""

from mlxctl.parsers.declarations import ThinkingParser

THINKING = ThinkingParser(
    id="gemma4_channel",
    opener="<|channel>thought",
    closer="<channel|>",
    trims="\n",
    stray_markers=("<|channel>",),
    closed_block="<|channel>thought\n<channel|>",
    closing="<channel|>",
    supports_toggle=True,
)
