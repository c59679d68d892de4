"""Thinking of Kimi VL: `◁think▷` to `◁/think▷`."""

from mlxctl.formats.parsers.declarations import ThinkingParser

THINKING = ThinkingParser(
    id="kimi_vl_think",
    opener="◁think▷",
    closer="◁/think▷",
    trims="\n",
    closed_block="◁think▷\n\n◁/think▷\n\n",
    closing="\n◁/think▷\n\n",
)
