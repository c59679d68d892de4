"""Thinking between `<longcat_think>` and `</longcat_think>`, as LongCat writes it."""

from mlxctl.formats.parsers.declarations import ThinkingParser

THINKING = ThinkingParser(
    id="longcat_think",
    opener="<longcat_think>",
    closer="</longcat_think>",
    trims="\n",
    closed_block="<longcat_think>\n\n</longcat_think>\n",
    closing="\n</longcat_think>\n",
    supports_toggle=True,
)
