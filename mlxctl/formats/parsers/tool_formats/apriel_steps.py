"""Thinking format of Apriel models.

From `Here are my reasoning steps:` to `[BEGIN FINAL RESPONSE]`.
"""

from mlxctl.formats.parsers.declarations import ThinkingParser

THINKING = ThinkingParser(
    id="apriel_steps",
    opener="Here are my reasoning steps:",
    closer="[BEGIN FINAL RESPONSE]",
    trims="\n",
    wrappers=("[END FINAL RESPONSE]",),
    closed_block="Here are my reasoning steps:\n\n[BEGIN FINAL RESPONSE]\n",
    closing="\n[BEGIN FINAL RESPONSE]\n",
)
