"""Thinking between `<|inner_prefix|>` and `<|inner_suffix|>`, as Apertus writes it."""

from mlxctl.formats.parsers.declarations import ThinkingParser

THINKING = ThinkingParser(
    id="apertus_inner",
    opener="<|inner_prefix|>",
    closer="<|inner_suffix|>",
    trims="\n",
    closed_block="<|inner_prefix|><|inner_suffix|>",
    closing="<|inner_suffix|>",
    supports_toggle=True,
)
