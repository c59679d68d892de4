"""Thinking between `<mm:think>` and `</mm:think>`, as MiniMax M3 writes it."""

from mlxctl.formats.parsers.declarations import ThinkingParser

THINKING = ThinkingParser(
    id="mm_think",
    opener="<mm:think>",
    closer="</mm:think>",
    trims="\n",
    closed_block="<mm:think></mm:think>",
    closing="</mm:think>",
    supports_toggle=True,
)
