"""Thinking between `<think:opensource>` and `</think:opensource>`, as Hy3 writes it."""

from mlxctl.formats.parsers.declarations import ThinkingParser

THINKING = ThinkingParser(
    id="hy_think",
    opener="<think:opensource>",
    closer="</think:opensource>",
    trims="\n",
    closed_block="<think:opensource></think:opensource>",
    closing="</think:opensource>",
    supports_toggle=True,
)
