"""Thinking between `<seed:think>` and `</seed:think>`, as Seed-OSS writes it."""

from mlxctl.formats.parsers.declarations import ThinkingParser

THINKING = ThinkingParser(
    id="seed_think",
    opener="<seed:think>",
    closer="</seed:think>",
    trims="\n",
    closed_block="<seed:think>\n</seed:think>\n",
    closing="\n</seed:think>\n",
    supports_toggle=True,
)
