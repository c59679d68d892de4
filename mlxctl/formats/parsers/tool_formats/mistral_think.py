"""Thinking of Magistral and Ministral: `[THINK]` to `[/THINK]`."""

from mlxctl.formats.parsers.declarations import ThinkingParser

THINKING = ThinkingParser(
    id="mistral_think",
    opener="[THINK]",
    closer="[/THINK]",
    trims="\n",
    closed_block="[THINK][/THINK]",
    closing="[/THINK]",
    supports_toggle=True,
)
